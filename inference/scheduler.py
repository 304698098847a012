"""What was read ahead, and which request is claimed next: lanes in their order, each first in
first out.

Owns the bounded queues between the log and the claims. It has no clock and talks to nobody.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from schemas.generated.types import Lane, StepRequest

Place = tuple[str, int]
"""Topic and partition."""


class Request(msgspec.Struct, frozen=True):
    """A step request and where it was read."""

    step: StepRequest
    place: Place
    offset: int

    @property
    def key(self) -> tuple[str, int]:
        """The generation and the epoch: what is claimed and computed once."""
        return (self.step.spec.generation_id, self.step.epoch)


class ReadAhead:
    """Requests waiting to be claimed, `requests_max` a lane before its reader must pause.

    A batch that is already on its way may pass the bound once; the reader bounds batches.
    """

    def __init__(self, lanes: Sequence[Lane], requests_max: int) -> None:
        self._lanes = {lane: deque[Request]() for lane in lanes}
        self._requests_max = requests_max

    def add(self, lane: Lane, request: Request) -> None:
        self._lanes[lane].append(request)

    def next(self) -> Request | None:
        """The first request of the first lane that has one."""
        for waiting in self._lanes.values():
            if waiting:
                return waiting.popleft()
        return None

    def full(self, lane: Lane) -> bool:
        """True where the lane's reader must pause."""
        return len(self._lanes[lane]) >= self._requests_max

    def low(self, lane: Lane) -> bool:
        """True where a paused reader may go on: at half, since each pause drops what it fetched."""
        return 2 * len(self._lanes[lane]) <= self._requests_max

    def waiting(self, lane: Lane) -> int:
        return len(self._lanes[lane])

    def drop(self, gone: Callable[[Place], bool]) -> int:
        """Forgets requests of partitions that are ours no more; returns how many."""
        dropped = 0
        for lane, waiting in self._lanes.items():
            kept = deque(request for request in waiting if not gone(request.place))
            dropped += len(waiting) - len(kept)
            self._lanes[lane] = kept
        return dropped
