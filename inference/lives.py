"""The incarnations of one process: the one that claims, and lapsed ones whose answers still run.

Owns when a new one begins and when an old one is left. A lease that ran out may have made the
incarnation dead for the workers machine; what it would claim then could be lost at once.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from inference import metrics
from inference.life import Life
from inference.log import Log

LINGER_S: Final = 5.0
"""A lapsed life listens at least this long for grants that were on their way."""
OLD_MAX: Final = 3
_BEAT_POLL_S: Final = 0.02

_log = structlog.get_logger()


class Lives:
    """`make` gives a life under a new name; `busy` tells whether answers of a life still run;
    `renewed` is called with every new one."""

    def __init__(
        self,
        log: Log,
        clock: Callable[[], float],
        make: Callable[[], Life],
        busy: Callable[[Life], bool],
        renewed: Callable[[], None],
    ) -> None:
        self._log = log
        self._clock = clock
        self._make = make
        self._busy = busy
        self._renewed = renewed
        self._old: list[Life] = []
        self._renewal: asyncio.Task[None] | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self.current: Life | None = None
        self.failed: str | None = None
        """Why this process can claim no more."""

    @property
    def claims(self) -> bool:
        """True where something may be claimed now."""
        return self.current is not None and self.current.claims

    async def begin(self) -> None:
        """Begins the first life: its orders are heard, its first heartbeat is acknowledged.

        Raises:
            TimeoutError: the broker does not answer.
        """
        self.current = await self._new_life()

    def tick(self, now_s: float) -> None:
        """Heartbeats of all lives; renews a lapsed one once the log is back."""
        lives = [life for life in (self.current, *self._old) if life is not None]
        for life in lives:
            life.tick(now_s)
            if life.failed is not None:
                self.failed = f"orders cannot be read: {life.failed}"
        if self._renewal is not None and self._renewal.done():
            error = self._renewal.exception()
            self._renewal = None
            if error is not None:
                _log.warning("no new life yet", error=type(error).__name__)
        current = self.current
        if current is not None and current.live and not current.claims and self._renewal is None:
            if len(self._old) >= OLD_MAX:
                self.failed = "too many leases ran out"
                return
            self._renewal = asyncio.create_task(self._renew())
        self._leave_old(now_s)

    def cancel(self) -> None:
        """Begins no more lives."""
        for task in (self._renewal, *self._leaving):
            if task is not None:
                task.cancel()

    async def leave(self) -> None:
        """Says goodbye for all lives."""
        if self._renewal is not None:
            self._renewal.cancel()
        lives = [life for life in (self.current, *self._old) if life is not None]
        await asyncio.gather(*(life.leave(tell=True) for life in lives), *self._leaving)

    async def _new_life(self) -> Life:
        life = self._make()
        await life.listen(self._log)
        while not life.live:
            life.tick(self._clock())
            await asyncio.sleep(_BEAT_POLL_S)
        metrics.LIVES.inc()
        _log.info("life begins", incarnation=life.incarnation)
        return life

    async def _renew(self) -> None:
        life = await self._new_life()
        if self.current is not None:
            self._old.append(self.current)
        self.current = life
        self._renewed()

    def _leave_old(self, now_s: float) -> None:
        for life in list(self._old):
            if self._busy(life) or now_s - (life.lapsed_at_s or 0.0) < LINGER_S:
                continue
            self._old.remove(life)
            task = asyncio.create_task(life.leave(tell=True))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
