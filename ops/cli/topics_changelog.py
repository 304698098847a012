"""A machine's marks on a broker. Owns the reading of its changelog and the writing of marks into it.

Decides nothing and touches no inbox. Every call has a deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaException, Producer

from ops.cli.console import CommandError, ExitCode, unreachable
from ops.log_scan import records
from processors import marks
from processors.machine import Machine
from processors.marks import Mark
from topics.errors import TopologyError
from topics.registry import CHANGELOGS
from topics.topology import topic_id

WRITE_S_MAX: Final = 15.0


class Changelog(msgspec.Struct, frozen=True):
    """One machine's marks on one broker."""

    bootstrap: str
    local: bool
    machine: Machine[Any]

    @property
    def partitions(self) -> int:
        return self.machine.inbox.ring.partitions(self.local)

    def inbox_id(self) -> str:
        """The inbox's Kafka id as it is now.

        Raises:
            CommandError: no answer in time, or no such topic.
        """
        try:
            return topic_id(self.bootstrap, self.machine.inbox)
        except TopologyError as error:
            raise CommandError(str(error), "milena topics list") from error

    def marks(self) -> dict[int, Mark]:
        """The newest mark of every partition that has one.

        Raises:
            CommandError: no answer in time.
        """
        found: dict[int, Mark] = {}
        try:
            for record in records(self.bootstrap, [CHANGELOGS[self.machine.name]], from_ms=0):
                partition = marks.partition_of(record.key.encode())
                if partition is not None and record.value is not None:
                    mark = marks.decode(record.value)
                    held = found.get(partition)
                    if held is None or mark.seq >= held.seq:
                        found[partition] = mark
        except KafkaException as error:
            raise unreachable("Kafka", self.bootstrap) from error
        return found

    def write(self, wanted: Mapping[int, Mark]) -> None:
        """Appends the marks and returns once all are in the log.

        Raises:
            CommandError: one was not acknowledged; writing them again is harmless.
        """
        failed: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        for partition, mark in wanted.items():
            producer.produce(
                CHANGELOGS[self.machine.name].name,
                key=marks.key_of(partition),
                value=marks.encode(mark),
                partition=partition,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        if producer.flush(WRITE_S_MAX) or failed:
            raise CommandError(
                f"not every mark was acknowledged {failed}; nothing is lost by another try",
                "milena status",
                ExitCode.UNREACHABLE,
            )
