"""Which offset of a partition may be committed: the low-water mark of answered requests.

Owns that arithmetic and nothing else. It reads no topic, commits nothing and has no clock.
"""

from collections import deque


class LowWater:
    """One partition, from the first offset read on. Offsets may have holes; they come in order."""

    def __init__(self) -> None:
        self._unanswered: set[int] = set()
        self._order: deque[int] = deque()
        self._next: int | None = None
        self._committed: int | None = None

    def read(self, offset: int) -> bool:
        """Notes a record; False if it was read before, so that nobody answers it a second time.

        A partition that was lost and came back begins again below what was read.
        """
        if self._next is not None and offset < self._next:
            return False
        self._unanswered.add(offset)
        self._order.append(offset)
        self._next = offset + 1
        return True

    def answered(self, offset: int) -> None:
        """The record needs nothing more. Unknown offsets are no error: the partition moved on."""
        self._unanswered.discard(offset)

    @property
    def unanswered(self) -> int:
        """How many records were read and not answered."""
        return len(self._unanswered)

    def mark(self) -> int | None:
        """The next offset to read after a restart; None before the first record."""
        while self._order and self._order[0] not in self._unanswered:
            self._order.popleft()
        return self._order[0] if self._order else self._next

    def commit(self) -> int | None:
        """The mark where it moved since the last call, else None."""
        mark = self.mark()
        if mark is None or mark == self._committed:
            return None
        self._committed = mark
        return mark
