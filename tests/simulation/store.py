"""The store of the simulated world: the twin in memory, and what may befall a call. Owns its faults."""

from collections.abc import Callable
from random import Random
from typing import Final

from connectors.store.memory import FINE, Fate, MemoryStore
from connectors.store.settings import StoreSettings
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.trace import Trace

SETTINGS: Final = StoreSettings()
WAY_S: Final = 0.003


class SimulatedStore:
    """One store for all processes. Its faults end with `rest`."""

    def __init__(self, loop: SimulationLoop, rng: Random, trace: Trace) -> None:
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self.process = Process("store")
        loop.processes.append(self.process)
        made = loop.context_of(self.process).run(MemoryStore, loop.time, SETTINGS)
        self.store: MemoryStore = made
        self.store.fate = self._fate
        self._unknown = 0.0
        self._slow_s = 0.0

    def strikes(self) -> dict[str, Callable[[], None]]:
        return {
            "store away": self._leave,
            "store frozen": self._freeze,
            "store unsure": self._be_unsure,
            "store slow": self._slow,
        }

    def rest(self) -> None:
        """All faults are over."""
        self._calm()
        self._come_back()
        self._thaw()

    def _said(self, what: str) -> None:
        self._trace.mark(f"fault: {what}")
        self._trace.say("store", what)

    def _leave(self) -> None:
        self._said("store away")
        self.store.away = True
        self._loop.call_later(self._rng.choice((0.3, 3.0, 9.0)), self._come_back)

    def _come_back(self) -> None:
        self.store.away = False

    def _freeze(self) -> None:
        if not self.process.stopped:
            self._said("store frozen")
            self._loop.stop_process(self.process)
            self._loop.call_later(self._rng.choice((1.0, 10.0)), self._thaw)

    def _thaw(self) -> None:
        if self.process.stopped:
            self._loop.continue_process(self.process)

    def _be_unsure(self) -> None:
        self._said("store unsure")
        self._unknown = self._rng.uniform(0.2, 0.9)
        self._loop.call_later(self._rng.uniform(1.0, 6.0), self._calm)

    def _slow(self) -> None:
        self._said("store slow")
        self._slow_s = self._rng.choice((0.2, 2.0, 8.0))
        self._loop.call_later(self._rng.uniform(1.0, 4.0), self._calm)

    def _calm(self) -> None:
        self._unknown = self._slow_s = 0.0

    def _fate(self, call: str) -> Fate:
        after_s = self._rng.random() * (WAY_S + self._slow_s)
        if self._unknown and self._rng.random() < self._unknown:
            applied = self._rng.random() < 0.5
            self._trace.mark(f"{call} unknown, {'applied' if applied else 'not applied'}")
            return Fate(applied=applied, answered=False, after_s=after_s)
        if self._slow_s and after_s > SETTINGS.deadline_s:
            self._trace.mark(f"{call} applied past its deadline")
        if self.process.stopped or self._slow_s:
            return Fate(after_s=after_s)
        return Fate(after_s=after_s) if self._rng.random() < 0.5 else FINE
