"""Which sequence may compute: a fixed number of slots, handed out in the order of asking.

Owns the waiting line in front of an engine, and which slot's cache a sequence may meet. It does
not compute and has no clock.
"""

import asyncio
from collections import deque

import msgspec

from inference.engines.base import EngineError, EngineErrorKind, EngineLoad

SequenceKey = tuple[str, int]
"""A generation's id and its epoch."""


class Slot(msgspec.Struct, frozen=True):
    """A place in the engine. `warm`: what the last sequence left there may be reused, because it
    ran under the same salt."""

    index: int
    warm: bool


class Slots:
    """At most `count` sequences at a time, and at most `waiting_max` behind them.

    Used from one event loop only. Of the free slots the one last used under the caller's salt is
    chosen, else the one unused for longest. There is never a free slot while a sequence waits.
    """

    def __init__(self, count: int, waiting_max: int) -> None:
        self._count = count
        self._waiting_max = waiting_max
        self._free: deque[int] = deque(range(count))  # unused for longest first
        self._salts: dict[int, str | None] = {}
        self._waiting: dict[SequenceKey, tuple[asyncio.Future[Slot | None], str | None]] = {}

    async def take(self, key: SequenceKey, salt: str | None) -> Slot | None:
        """Wait for a slot; None where `withdraw` ended the wait. A cancelled wait takes nothing.

        Raises EngineError (`backend_error`) where too many wait already.
        """
        if self._free:
            return self._choose(salt)
        if len(self._waiting) >= self._waiting_max:
            raise EngineError(EngineErrorKind.BACKEND_ERROR, "too many sequences wait for a slot")
        waiter: asyncio.Future[Slot | None] = asyncio.get_running_loop().create_future()
        self._waiting[key] = (waiter, salt)
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and (slot := waiter.result()) is not None:
                self.give_back(slot)
            raise
        finally:
            self._waiting.pop(key, None)

    def withdraw(self, key: SequenceKey) -> None:
        """End the wait of a sequence that is wanted no more; nothing if it does not wait."""
        if found := self._waiting.pop(key, None):
            found[0].set_result(None)

    def give_back(self, slot: Slot) -> None:
        """Free a slot: the longest waiting sequence gets it at once."""
        self._free.append(slot.index)
        while self._waiting and self._free:
            waiter, salt = self._waiting.pop(next(iter(self._waiting)))
            if not waiter.done():
                waiter.set_result(self._choose(salt))

    def load(self) -> EngineLoad:
        """Slots taken, sequences waiting, slots in all."""
        return EngineLoad(
            running=self._count - len(self._free), waiting=len(self._waiting), slots=self._count
        )

    def _choose(self, salt: str | None) -> Slot:
        warm = [i for i in self._free if salt is not None and self._salts.get(i) == salt]
        index = warm[-1] if warm else self._free[0]
        self._free.remove(index)
        self._salts[index] = salt
        return Slot(index=index, warm=bool(warm))
