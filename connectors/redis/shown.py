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
    """False where entries are gone or cannot be read: `text` is what comes before the hole."""


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


class ShownText:
    """The fold itself: `take` entries oldest first, then ask for `text`."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self.whole = True

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def take(self, entry: Entry) -> None:
        """One more entry; one that cannot be read leaves a hole."""
        try:
            match entry.event:
                case "text.delta":
                    self._delta(_DELTA.decode(entry.data))
                case "snapshot":
                    self._replace(_SNAPSHOT.decode(entry.data).text)
                case "reset":
                    self._cut(_RESET.decode(entry.data).offset)
                case "retract":
                    self._replace("")
        except msgspec.DecodeError:
            self.whole = False

    def _delta(self, delta: _Delta) -> None:
        if delta.offset < self._length:
            self._cut(delta.offset)
        elif delta.offset > self._length:
            self.whole = False
            return  # what follows a hole is no beginning of the text
        self._parts.append(delta.delta)
        self._length += len(delta.delta)

    def _cut(self, offset: int) -> None:
        kept = self.text[:offset]
        self._parts, self._length = [kept], len(kept)

    def _replace(self, text: str) -> None:
        self._parts, self._length, self.whole = [text], len(text), True


def shown_text(entries: Iterable[Entry]) -> tuple[str, bool]:
    """(text, whole) after these entries, oldest first."""
    fold = ShownText()
    for entry in entries:
        fold.take(entry)
    return fold.text, fold.whole
