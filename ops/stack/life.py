"""What the supervisor remembers of one part while it keeps it: its state, process and log."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from ops.stack.part import Part, Report, State
from ops.stack.process import Process

LOG_BYTES_MAX = 32 << 20


class Life:
    """Changes only through its methods; each change is told once."""

    def __init__(self, part: Part, log: Path, tell: Callable[[Report], None]) -> None:
        self.part = part
        self.log = log
        self.state = State.WAITING
        self.process: Process | None = None
        self.ready = asyncio.Event()
        """Set at the first readiness and never taken back: what depends on it may start."""
        self.stopped = asyncio.Event()
        self.was_ready = False
        self.restarts = 0
        self.seen = "nothing seen yet"
        self._serves = False
        self._note = ""
        self._since = time.time()
        self._began = time.monotonic()
        self._took_s: float | None = None
        self._tell = tell

    def begin(self, process: Process) -> None:
        """A process was started."""
        self.process = process
        self._began = time.monotonic()
        self._took_s = None
        self.move(State.STARTING, "")

    def become_ready(self, state: State) -> None:
        """It serves, or, being a step, it is done."""
        self.was_ready = True
        self._serves = True
        self._took_s = time.monotonic() - self._began
        self.move(state, "", serves=True)
        self.ready.set()

    def healthy(self, serves: bool, seen: str) -> None:
        """What a look at a ready part showed; told only where it changed."""
        if serves is not self._serves:
            self._serves = serves
            self._note = seen
            self._tell(self.report())

    def move(self, state: State, note: str, *, serves: bool = False) -> None:
        """Takes on a state and tells of it."""
        self.state = state
        self._note = note
        self._serves = serves
        self._since = time.time()
        self._tell(self.report())

    async def stop(self, deadline_s: float) -> None:
        """Ends its process, if any."""
        running = self.state in (State.STARTING, State.READY, State.STOPPING)
        if self.process is not None and running:
            self.move(State.STOPPING, "")
            await self.process.stop(deadline_s)
        if self.state not in (State.DONE, State.STOPPED, State.FAILED):
            self.move(State.STOPPED, "")
        self.stopped.set()

    def kill(self) -> None:
        """Kills its process at once; `stop` then sees it gone."""
        if self.process is not None:
            self.process.kill()

    def bound_log(self) -> None:
        """Keeps one older log beside the present one, each within the bound.

        The process appends to the open file, so the file is copied and cut, never renamed.
        """
        try:
            if self.log.stat().st_size > LOG_BYTES_MAX:
                shutil.copyfile(self.log, self.log.with_suffix(".log.1"))
                with self.log.open("r+b") as file:
                    file.truncate(0)
        except OSError as error:
            self._note = f"its log cannot be cut: {error.strerror}"

    def report(self) -> Report:
        """The part as it is now."""
        running = self.state in (State.STARTING, State.READY, State.STOPPING)
        return Report(
            name=self.part.name,
            state=self.state,
            pid=self.process.pid if self.process is not None and running else None,
            port=self.part.port,
            since=self._since,
            restarts=self.restarts,
            ready=self._serves,
            once=self.part.once,
            critical=self.part.critical,
            took_s=self._took_s,
            note=self._note,
            log=str(self.log),
        )
