"""Records that cannot be folded: where they go, with which words, and how many are too many.

Owns the limit and the headers. A dead letter keeps its bytes; its reason is a stable word, never content.
"""

from collections.abc import Callable
from typing import Final

import structlog

from processors.outgoing import Outgoing
from topics.registry import DEAD_LETTERS, MACHINE_INBOXES

DEAD_LETTERS_MAX: Final = 1_000
"""Beyond this the fault is ours, not the data's: the process ends."""

_log = structlog.get_logger()


class DeadLetters:
    """The dead letters of one machine's process."""

    def __init__(self, machine: str, fatal: Callable[[str], None]) -> None:
        self._topic = DEAD_LETTERS[machine].name
        self._source = MACHINE_INBOXES[machine].name
        self._fatal = fatal
        self._count = 0

    def letter(
        self, partition: int, offset: int, key: bytes, value: bytes | None, reason: str
    ) -> Outgoing:
        """The record to send in place of an event at that place of the inbox."""
        self._count += 1
        _log.warning("dead letter", reason=reason, partition=partition, offset=offset)
        if self._count > DEAD_LETTERS_MAX:
            self._fatal("too many dead letters")
        headers = (
            ("milena-dlq-reason", reason.encode()),
            ("milena-dlq-topic", self._source.encode()),
            ("milena-dlq-partition", str(partition).encode()),
            ("milena-dlq-offset", str(offset).encode()),
        )
        return Outgoing(self._topic, partition, key, value, headers)
