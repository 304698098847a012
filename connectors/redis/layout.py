"""Names and shapes in Redis: keys, entry ids, pushed messages. Pure; owns the key layout.

The braces are literal: both keys and the channel of a generation live in one slot.
"""

from typing import Final

import msgspec

EntryId = tuple[int, int]
"""(epoch, sequence); compares as Redis compares entry ids."""

SEQUENCES_PER_EPOCH: Final = 1_000_000
"""Who cannot read the last number starts at epoch times this."""

TERMINALS: Final = frozenset({"completed", "cancelled", "stopped", "error"})


class Entry(msgspec.Struct, frozen=True):
    """One entry of a stream. `event` lacks the prefix "generation."; `data` is compact JSON."""

    epoch: int
    sequence: int
    event: str
    data: bytes

    @property
    def id(self) -> EntryId:
        return (self.epoch, self.sequence)

    @property
    def terminal(self) -> bool:
        return self.event in TERMINALS


def stream_key(generation_id: str) -> str:
    return f"gen:{{{generation_id}}}"


def control_key(generation_id: str) -> str:
    return f"ctl:{{{generation_id}}}"


def payload_key(generation_id: str) -> str:
    return f"pay:{{{generation_id}}}"


def channel(generation_id: str) -> str:
    return f"push:{{{generation_id}}}"


def generation_of(channel_name: str) -> str:
    """The generation whose channel this is."""
    return channel_name[len("push:{") : -1]


def format_id(epoch: int, sequence: int) -> str:
    return f"{epoch}-{sequence}"


def parse_id(text: str | bytes) -> EntryId:
    """
    Raises:
        ValueError: not `<epoch>-<sequence>`.
    """
    epoch, _, sequence = (text.decode("ascii") if isinstance(text, bytes) else text).partition("-")
    return (int(epoch), int(sequence))


def parse_message(message: bytes) -> Entry:
    """A pushed message `<epoch>-<sequence> <event> <data>`.

    Raises:
        ValueError: another shape.
    """
    name, event, data = message.split(b" ", 2)
    epoch, sequence = parse_id(name)
    return Entry(epoch, sequence, event.decode(), data)
