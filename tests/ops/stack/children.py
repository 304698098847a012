"""Tiny processes for the supervisor to keep, and a list of what it told."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ops.stack.part import NotReady, Part, Report, State
from ops.stack.supervisor import Supervisor

PYTHON = (sys.executable, "-I", "-S", "-c")
# Says that it runs in a file, then waits for SIGTERM, which it may take its time to obey.
SERVE = """
import pathlib, signal, sys, time
def end(*_):
    with open(sys.argv[2], "a") as ends: ends.write(sys.argv[1] + chr(10))
    time.sleep(float(sys.argv[3])); sys.exit(0)
signal.signal(signal.SIGTERM, end)
pathlib.Path(sys.argv[2] + "." + sys.argv[1]).touch()
while True: signal.pause()
"""
STUBBORN = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[2] + "." + sys.argv[1]).touch()
while True: signal.pause()
"""


class Bench:
    """A folder with a supervisor's surroundings, and what the supervisor told."""

    def __init__(self, folder: Path) -> None:
        self.logs, self.run = folder / "logs", folder / "run"
        for made in (self.logs, self.run):
            made.mkdir()
        self.ends = folder / "ends"
        self.told: list[Report] = []

    def server(self, name: str, *, code: str = SERVE, slow_s: float = 0.0, **more: Any) -> Part:
        """A part that is ready once its process has said so."""
        marker = Path(f"{self.ends}.{name}")
        command = (*PYTHON, code, name, str(self.ends), str(slow_s))
        return Part(name=name, command=command, ready=appears(marker), **more)

    def step(self, name: str, code: str = "pass", **more: Any) -> Part:
        return Part(name=name, command=(*PYTHON, code), once=True, **more)

    def supervisor(self, *parts: Part) -> Supervisor:
        return Supervisor(parts, logs=self.logs, run=self.run, tell=self.told.append)

    def states(self, name: str) -> list[State]:
        return [report.state for report in self.told if report.name == name]

    def order(self, state: State) -> list[str]:
        """Names in the order in which they came to the state."""
        return [report.name for report in self.told if report.state is state]

    async def until(self, name: str, wanted: Callable[[Report], bool]) -> Report:
        """The first report of a part that is as wanted; fails after ten seconds."""
        async with asyncio.timeout(10):
            while True:
                for report in self.told:
                    if report.name == name and wanted(report):
                        return report
                await asyncio.sleep(0.01)


def appears(marker: Path) -> Callable[[], Awaitable[None]]:
    exists = marker.exists

    async def ready() -> None:
        if not exists():
            raise NotReady("no marker")

    return ready


async def eventually(holds: Callable[[], bool]) -> None:
    """Returns once it holds; fails after ten seconds."""
    async with asyncio.timeout(10):
        while True:
            if holds():
                return
            await asyncio.sleep(0.01)
