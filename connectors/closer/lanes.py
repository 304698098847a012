"""Works on many keys at once and on one key's records in order. Owns the bound, knows no record."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Lanes(Generic[Item]):
    """`work` must not raise: what it raises ends all through `fatal`."""

    def __init__(
        self,
        work: Callable[[Item], Awaitable[None]],
        in_flight_max: int,
        fatal: Callable[[BaseException], None],
    ) -> None:
        self._work = work
        self._in_flight_max = in_flight_max
        self._fatal = fatal
        self._queues: dict[str, deque[Item]] = {}
        self._ready: deque[str] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self.waiting = 0
        """Items put and not yet begun."""

    @property
    def in_flight(self) -> int:
        return len(self._running)

    def put(self, key: str, item: Item) -> None:
        if key not in self._queues:
            self._queues[key] = deque()
            self._ready.append(key)
        self._queues[key].append(item)
        self.waiting += 1
        self._fill()

    async def finish(self, timeout_s: float) -> None:
        """Returns once nothing is in flight, or after the time; what is left is cancelled."""
        self._ready.clear()
        if self._running:
            _, left = await asyncio.wait(set(self._running), timeout=timeout_s)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _fill(self) -> None:
        while self._ready and len(self._running) < self._in_flight_max:
            task = asyncio.create_task(self._run(self._ready.popleft()))
            self._running.add(task)
            task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fatal(error)
        self._fill()

    async def _run(self, key: str) -> None:
        queue = self._queues[key]
        while queue:
            item = queue.popleft()
            self.waiting -= 1
            await self._work(item)
        del self._queues[key]
