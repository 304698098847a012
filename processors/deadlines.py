"""When each key wants its next `Due`. Owns a heap; never reads a clock.

A `Due` only says that a deadline may have passed: the fold judges by the record's append time, so an
early or repeated one is harmless and the heap may forget and re-learn at will.
"""

import heapq
from typing import Final

REPEAT_MS: Final = 1_000
"""A deadline that stands after its `Due` was appended is asked about again after this long."""
REPLACED_MAX: Final = 4_096
"""Entries beyond two a key that later ones replaced; with more the heap is made anew."""


class Deadlines:
    """Keys with their next deadline, epoch milliseconds of broker time."""

    def __init__(self) -> None:
        self._wanted: dict[str, int] = {}
        self._look_at: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._wanted)

    def set(self, key: str, deadline_ms: int | None) -> None:
        """The key's deadline after a fold; None where it has none."""
        if deadline_ms is None:
            self._wanted.pop(key, None)
            self._look_at.pop(key, None)
        elif self._wanted.get(key) != deadline_ms:
            self._wanted[key] = deadline_ms
            self._push(key, deadline_ms)

    def clear(self) -> None:
        self._wanted.clear()
        self._look_at.clear()
        self._heap.clear()

    def passed(self, now_ms: int, most: int) -> list[tuple[str, int]]:
        """Up to `most` keys whose deadline passed, with it; each is asked again until it moves."""
        found: list[tuple[str, int]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < most:
            at, key = heapq.heappop(self._heap)
            if self._look_at.get(key) != at:
                continue  # an entry that a later one replaced
            found.append((key, self._wanted[key]))
            self._push(key, now_ms + REPEAT_MS)
        return found

    def _push(self, key: str, at_ms: int) -> None:
        self._look_at[key] = at_ms
        heapq.heappush(self._heap, (at_ms, key))
        if len(self._heap) > 2 * len(self._look_at) + REPLACED_MAX:
            self._heap = [(at, waiting) for waiting, at in self._look_at.items()]
            heapq.heapify(self._heap)
