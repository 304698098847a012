"""Which offset of each partition may be committed: all below it is done. Pure bookkeeping."""

from collections.abc import Mapping

Place = tuple[str, int]
"""(topic, partition)"""


class LowWater:
    """Offsets are taken in order, per partition, and done in any order."""

    def __init__(self) -> None:
        self._open: dict[Place, dict[int, None]] = {}
        self._next: dict[Place, int] = {}
        self._told: dict[Place, int] = {}

    def taken(self, place: Place, offset: int) -> None:
        """Records an offset to be worked on; it holds the mark until it is done."""
        self._open.setdefault(place, {})[offset] = None
        self._next[place] = offset + 1

    def done(self, place: Place, offset: int) -> None:
        """An offset of a forgotten partition is ignored."""
        self._open.get(place, {}).pop(offset, None)

    def forget(self, place: Place) -> None:
        """The partition is another's now."""
        for known in (self._open, self._next, self._told):
            known.pop(place, None)

    def news(self) -> Mapping[Place, int]:
        """Next offset to read of each partition whose mark moved since the last call."""
        moved: dict[Place, int] = {}
        for place, after_last in self._next.items():
            mark = next(iter(self._open[place]), after_last)
            if mark != self._told.get(place):
                moved[place] = self._told[place] = mark
        return moved
