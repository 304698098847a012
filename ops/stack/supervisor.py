"""Starts the parts as soon as what they depend on is ready, restarts what crashes, stops them all.

Owns the children's processes, their logs and pid files. It knows nothing of what a part is: that
is the plan's. What it does is told to one callback as `Report` values; it prints nothing itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ops.stack.life import Life
from ops.stack.part import NotReady, Part, Report, State
from ops.stack.process import Process
from ops.stack.settings import StackError

BACKOFF_S_FIRST = 0.5
BACKOFF_S_MAX = 10.0
HEALTHY_S = 30.0
"""After this long a part that crashes starts again at once with the first back-off."""
START_TRIES_MAX = 5
"""A part that was never ready is given up after so many failed starts."""
POLL_S = 0.1
WATCH_S = 5.0
STOP_S_MAX = 27.0

Tell = Callable[[Report], None]


class StartFailed(StackError):
    """A critical part could not be started; the message names it and its log."""


def backoff_s(failures: int) -> float:
    """Seconds to wait after the given number of failures in a row, from 1."""
    return float(min(BACKOFF_S_FIRST * 2 ** (failures - 1), BACKOFF_S_MAX))


class Supervisor:
    """One run of a set of parts. Use once: `start`, then `wait`, then `stop`."""

    def __init__(self, parts: Sequence[Part], *, logs: Path, run: Path, tell: Tell) -> None:
        order = check(parts)
        self._lives = {part.name: Life(part, logs / f"{part.name}.log", tell) for part in order}
        self._run = run
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stopping = asyncio.Event()
        self._failed: asyncio.Future[StartFailed] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Begins to keep every part alive."""
        work = {name: self._keep(life) for name, life in self._lives.items()}
        self._tasks = {name: asyncio.create_task(keep) for name, keep in work.items()}
        self._tasks["watch"] = asyncio.create_task(self._watch())
        for task in self._tasks.values():
            task.add_done_callback(self._stop_on_defect)

    async def ready(self) -> None:
        """Returns when every critical part is ready, or when the stack is being stopped.

        Raises:
            StartFailed: when one of them was given up.
        """
        critical = [life.ready.wait() for life in self._lives.values() if life.part.critical]
        everything = asyncio.gather(*critical)
        stopping = asyncio.ensure_future(self._stopping.wait())
        ends: list[asyncio.Future[Any]] = [everything, stopping, self._failed]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            everything.cancel()
            stopping.cancel()
            await asyncio.gather(everything, stopping, return_exceptions=True)
        if self._failed.done():
            raise self._failed.result()

    async def wait(self) -> None:
        """Returns when a stop was asked for.

        Raises:
            StartFailed: when a part refused, which may come long after the stack was ready.
        """
        stopping = asyncio.ensure_future(self._stopping.wait())
        ends: list[asyncio.Future[Any]] = [stopping, self._failed]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if self._failed.done():
            raise self._failed.result()

    def ask_to_stop(self) -> None:
        """The first call asks for a clean stop, any later one kills what still runs at once."""
        if not self._stopping.is_set():
            self._stopping.set()
            return
        for life in self._lives.values():
            life.kill()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    def reports(self) -> list[Report]:
        """Every part as it is now."""
        return [life.report() for life in self._lives.values()]

    async def stop(self) -> None:
        """Stops every part after those that depend on it; past the deadline it kills the rest.

        Raises:
            Exception: a defect of the supervisor itself, once everything is stopped.
        """
        self._stopping.set()
        for task in self._tasks.values():
            task.cancel()
        ends = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        dependents: dict[str, list[Life]] = {name: [] for name in self._lives}
        for life in self._lives.values():
            for name in life.part.after:
                dependents[name].append(life)
        stops = [self._stop_one(life, dependents[name]) for name, life in self._lives.items()]
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await asyncio.gather(*stops)
        except TimeoutError:
            for life in self._lives.values():
                await life.stop(0.0)
        defects = [end for end in ends if isinstance(end, Exception)]
        if defects:
            raise defects[0]

    def _stop_on_defect(self, task: asyncio.Task[None]) -> None:
        """A defect of our own must end the run, never leave a part unkept."""
        if not task.cancelled() and task.exception() is not None:
            self._stopping.set()

    async def _stop_one(self, life: Life, dependents: list[Life]) -> None:
        for dependent in dependents:
            await dependent.stopped.wait()
        await life.stop(life.part.stop_s_max)

    async def _keep(self, life: Life) -> None:
        for name in life.part.after:
            await self._lives[name].ready.wait()
        failures = 0
        while True:
            started = time.monotonic()
            reason = await self._live(life)
            if reason is None:
                return
            healthy = life.was_ready and time.monotonic() - started >= HEALTHY_S
            failures = 1 if healthy else failures + 1
            if failures >= START_TRIES_MAX and not life.ready.is_set():
                self._give_up(life, reason)
                return
            pause_s = backoff_s(failures)
            life.move(State.BACKING_OFF, f"{reason}; again in {pause_s:g} s, see {life.log}")
            await asyncio.sleep(pause_s)
            life.restarts += 1

    async def _live(self, life: Life) -> str | None:
        """One life of a part, to its end. None: it is done. Else why it ended, in words."""
        life.was_ready = False
        try:
            process = await Process.start(life.part, life.log, self._run)
        except OSError as error:
            return f"it could not be started: {error.strerror or error}"
        life.begin(process)
        ended = asyncio.ensure_future(process.ended())
        try:
            if not life.part.once:
                async with asyncio.timeout(life.part.start_s_max):
                    await self._until_ready(life, ended)
            code = await ended
        except TimeoutError:
            await process.stop(life.part.stop_s_max)
            return f"not ready within {life.part.start_s_max:g} s ({life.seen})"
        finally:
            ended.cancel()
        if life.part.once and code == 0:
            life.become_ready(State.DONE)
            return None
        if code in life.part.refuses:
            self._refuse(life)
            return None
        return describe(code)

    async def _until_ready(self, life: Life, ended: asyncio.Future[int]) -> None:
        while not ended.done():
            try:
                if life.part.ready is not None:
                    await life.part.ready()
            except NotReady as seen:
                life.seen = str(seen)
                await asyncio.wait([ended], timeout=POLL_S)
            else:
                if not ended.done():
                    life.become_ready(State.READY)
                return

    async def _watch(self) -> None:
        """Looks now and then whether what was ready still is, and keeps the logs within bounds."""
        while True:
            await asyncio.sleep(WATCH_S)
            for life in self._lives.values():
                life.bound_log()
            await asyncio.gather(*(self._look(life) for life in self._lives.values()))

    async def _look(self, life: Life) -> None:
        if life.state is not State.READY or life.part.watch is None:
            return
        process = life.process
        seen = ""
        try:
            await life.part.watch()
        except NotReady as reason:
            seen = str(reason)
        # It may have ended or been restarted meanwhile; that was told already.
        if life.process is process and life.state is State.READY:
            life.healthy(not seen, seen)

    def _refuse(self, life: Life) -> None:
        life.move(State.FAILED, f"it refuses, see {life.log}")
        if not self._failed.done():
            refused = f"{life.part.name} refuses, so nothing may run on it. Read {life.log}"
            self._failed.set_result(StartFailed(refused))

    def _give_up(self, life: Life, reason: str) -> None:
        life.move(State.FAILED, f"{reason}; given up, see {life.log}")
        if life.part.critical and not self._failed.done():
            self._failed.set_result(
                StartFailed(f"{life.part.name} cannot be started: {reason}. Read {life.log}")
            )


def check(parts: Sequence[Part]) -> list[Part]:
    """The parts in an order where each comes after what it depends on.

    Raises:
        ValueError: for a name used twice, an unknown dependency or a circle.
    """
    left = {part.name: part for part in parts}
    if len(left) < len(parts):
        raise ValueError("two parts have the same name")
    order: list[Part] = []
    placed: set[str] = set()
    while left:
        free = [part for part in left.values() if placed.issuperset(part.after)]
        if not free:
            raise ValueError(f"these depend on a circle or on nothing known: {sorted(left)}")
        for part in free:
            order.append(left.pop(part.name))
            placed.add(part.name)
    return order


def describe(code: int) -> str:
    """An exit status in words."""
    if code >= 0:
        return f"it ended with {code}"
    with contextlib.suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"
