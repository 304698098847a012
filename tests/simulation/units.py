"""Supervised processes: started, killed, started again. Owns lives and pauses between them."""

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.trace import Trace

Main = Callable[[Process, int], Coroutine[Any, Any, None]]
"""(process, number of its life) -> what it does."""


class Unit:
    """One place in the stack; its process may have many lives."""

    def __init__(
        self, loop: SimulationLoop, rng: Random, trace: Trace, name: str, main: Main
    ) -> None:
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self._main = main
        self._down_until_s = 0.0
        self.name = name
        self.life = 0
        self.process: Process | None = None

    def start(self) -> None:
        self.life += 1
        process = self.process = Process(f"{self.name}#{self.life}")
        process.on_exit.append(self._exited)
        self._trace.say(process.name, "starts")
        self._loop.start(process, self._main(process, self.life))

    def kill(self) -> None:
        if self.process is not None:
            self._loop.kill(self.process)

    def hold_down(self, seconds: float) -> None:
        """Once it is down, it stays down for so long."""
        self._down_until_s = self._loop.time() + seconds

    def repair(self) -> None:
        """It runs, or will in a moment."""
        self._down_until_s = 0.0
        process = self.process
        if process is not None and process.stopped:
            self._loop.continue_process(process)
        if process is None or not process.alive:
            self._again(process)

    def _exited(self) -> None:
        pause_s = self._rng.uniform(0.2, 2.0)
        wait_s = max(pause_s, self._down_until_s - self._loop.time())
        self._loop.call_later(wait_s, self._again, self.process)

    def _again(self, last: Process | None) -> None:
        if self.process is last:
            self._trace.mark(f"restarted {self.name.rpartition('-')[0]}")
            self.start()
