"""What a reader of a stream sees: the fold of entries to text. Pure.

Offsets and lengths count Unicode code points, as Python's `len` of a str does.
"""

from collections.abc import Iterable

import msgspec

from connectors.redis.layout import Entry


class Shown(msgspec.Struct, frozen=True):
    """Text a reader from the start has. `last_epoch`, `last_sequence`: highest number ever used,
    0 and 0 where no stream exists."""

    text: str
    code_points: int
    last_epoch: int
    last_sequence: int
    exists: bool
    whole: bool = True
    """False where entries at the start are gone, so that `text` has a hole."""


class _Delta(msgspec.Struct):
    offset: int
    delta: str


class _Snapshot(msgspec.Struct):
    text: str


class _Reset(msgspec.Struct):
    offset: int


_DELTA = msgspec.json.Decoder(_Delta)
_SNAPSHOT = msgspec.json.Decoder(_Snapshot)
_RESET = msgspec.json.Decoder(_Reset)


def shown_text(entries: Iterable[Entry]) -> tuple[str, bool]:
    """(text, whole) after these entries, oldest first.

    Raises:
        msgspec.DecodeError: data of another shape, which no writer of ours makes.
    """
    parts: list[str] = []
    length = 0
    whole = True
    for entry in entries:
        if entry.event == "text.delta":
            delta = _DELTA.decode(entry.data)
            if delta.offset < length:
                parts = ["".join(parts)[: delta.offset]]
            elif delta.offset > length:
                whole = False
            parts.append(delta.delta)
            length = min(length, delta.offset) + len(delta.delta)
        elif entry.event == "snapshot":
            parts = [_SNAPSHOT.decode(entry.data).text]
            length, whole = len(parts[0]), True
        elif entry.event == "reset":
            parts = ["".join(parts)[: _RESET.decode(entry.data).offset]]
            length = len(parts[0])
        elif entry.event == "retract":
            parts, length, whole = [], 0, True
    return "".join(parts), whole
