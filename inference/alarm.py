"""A cheap wait for whatever comes first: a moment or a ring. Owns one future at a time."""

import asyncio


class Alarm:
    """One waiter. A ring while nobody waits ends the next wait at once."""

    __slots__ = ("_loop", "_rung", "_waiter")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None
        self._rung = False

    def ring(self) -> None:
        self._rung = True
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Returns after `seconds`, or at a ring; at once where one came before or none are left."""
        if self._rung or seconds <= 0:
            self._rung = False
            await asyncio.sleep(0)  # a loop of its caller must never keep the loop for itself
            return
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self.ring)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
            self._rung = False
