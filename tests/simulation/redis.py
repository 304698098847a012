"""Redis of the simulated world: the one in memory as a process of its own, and what may befall it.

Owns its faults and their ends. Processes speak to it with the real `Calls` and `PushConnection`.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from connectors.redis.calls import Calls
from connectors.redis.layout import control_key, stream_key
from connectors.redis.memory import MemoryLink, MemoryRedis
from connectors.redis.settings import RedisSettings
from tests.simulation.broker import T0_MS
from tests.simulation.loop import PROCESS, Process, SimulationLoop
from tests.simulation.trace import Trace

SETTINGS: Final = RedisSettings()
WAY_S: Final = 0.001


class SimulatedRedis:
    """One server. Its faults end with `rest`."""

    def __init__(self, loop: SimulationLoop, rng: Random, trace: Trace) -> None:
        self._loop = loop
        self._rng = rng
        self._trace = trace
        self.process = Process("redis")
        loop.processes.append(self.process)
        self.server: MemoryRedis = loop.context_of(self.process).run(MemoryRedis, self._now_us)
        self.server.delay_s = lambda: WAY_S * rng.random()
        self.server.fate = self._fate
        self._push_lost = 0.0
        self._push_late = 0.0
        self.on = True

    def _now_us(self) -> int:
        return T0_MS * 1_000 + int(self._loop.time() * 1_000_000)

    def link(self, settings: RedisSettings) -> MemoryLink:
        """A connection of the running process: it ends with it."""
        link = self.server.link(settings)
        PROCESS.get(self._loop.world).on_exit.append(link.leave)
        return link

    def calls(self) -> Calls:
        return Calls(SETTINGS, self.link)

    # --- faults

    def strikes(self, generations: Callable[[], Sequence[str]]) -> dict[str, Callable[[], None]]:
        """By name; `generations` are those there were so far."""
        return {
            "redis killed": self._kill,
            "redis frozen": self._freeze,
            "redis flushed": self._flush,
            "redis lost a key": lambda: self._lose(generations()),
            "redis full": self._fill,
            "redis cut": self._cut,
            "push cut": self._cut_push,
            "push torn": self._tear,
        }

    def rest(self) -> None:
        """All faults are over."""
        self.on = False
        self._push_lost = self._push_late = 0.0
        self._empty()
        self._thaw()
        self.server.start()

    def _said(self, what: str) -> None:
        self._trace.mark(f"fault: {what}")
        self._trace.say("redis", what)

    def _kill(self) -> None:
        self._thaw()
        if self.server.up:
            self._said("redis killed")
            self.server.stop()
            self._loop.call_later(self._rng.choice((0.05, 0.5, 4.0)), self.server.start)

    def _freeze(self) -> None:
        if not self.process.stopped:
            self._said("redis frozen")
            self._loop.stop_process(self.process)
            self._loop.call_later(self._rng.choice((0.1, 1.0, 5.0, 10.0)), self._thaw)

    def _thaw(self) -> None:
        if self.process.stopped:
            self._loop.continue_process(self.process)

    def _flush(self) -> None:
        self._said("redis flushed")
        self.server.flush()

    def _lose(self, generations: Sequence[str]) -> None:
        key = self._rng.choice((stream_key, control_key))
        names = [name for name in generations if self.server.keys.exists(key(name))]
        if names and self.server.lose(key(self._rng.choice(names))):
            self._said(f"redis lost a {key.__name__.partition('_')[0]}")

    def _fill(self) -> None:
        self._said("redis full")
        self.server.full = True
        self._loop.call_later(self._rng.choice((0.5, 3.0)), self._empty)

    def _empty(self) -> None:
        self.server.full = False

    def _cut(self) -> None:
        executed = self._rng.random() < 0.5
        if self.server.cut(executed):
            self._trace.mark(f"redis calls {'answered to nobody' if executed else 'never came'}")
        self._said("redis cut")

    def _cut_push(self) -> None:
        sessions = self.server.subscribers()
        if sessions:
            self._said("push cut")
            self.server.cut(executed=True, chosen=[self._rng.choice(sessions)])

    def _tear(self) -> None:
        self._said("push torn")
        self._push_lost, self._push_late = self._rng.uniform(0, 0.3), self._rng.uniform(0, 0.3)
        self._loop.call_later(3.0, self._mend)

    def _mend(self) -> None:
        self._push_lost = self._push_late = 0.0

    def _fate(self, channel: str, message: bytes) -> Sequence[float]:
        drawn = self._rng.random()
        if drawn < self._push_lost:
            self._trace.mark("push lost")
            return ()
        if drawn < self._push_lost + self._push_late:
            self._trace.mark("push late")
            return (self._rng.uniform(0.01, 1.0),)
        return (0.0,)
