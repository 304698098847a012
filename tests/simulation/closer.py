"""The real closer as a process of the simulated world. Owns the wiring alone."""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Final

from connectors.closer.process import GROUP, Closer
from connectors.closer.settings import CloserSettings
from connectors.store.memory import MemoryStore
from tests.simulation.broker import Broker
from tests.simulation.groups import Group
from tests.simulation.loop import Process
from tests.simulation.redis import SimulatedRedis
from tests.simulation.trace import Trace
from tests.simulation.words import Words
from topics.registry import CONTROL_STREAMS

SETTINGS: Final = CloserSettings()


class RealCloser:
    """One life of one closer process."""

    def __init__(
        self,
        broker: Broker,
        trace: Trace,
        rng: Random,
        groups: Mapping[str, Group],
        redis: SimulatedRedis,
        store: MemoryStore,
        name: str,
        life: int,
    ) -> None:
        self._loop = broker.loop
        self._trace = trace
        self._name = name
        self._words = Words(broker, groups, life)
        self._stop = asyncio.Event()
        self._closer = Closer(
            SETTINGS,
            redis.calls(),
            store,
            self._words,
            jitter=rng.random,
            wall_ms=broker.now_ms,
        )

    async def main(self, process: Process) -> None:
        """Serves until it is told to stop or cannot go on; then the process is gone."""
        try:
            await self._closer.run(
                lambda deliver, revoked: self._words.grouped(
                    CONTROL_STREAMS, GROUP, self._name, deliver, revoked
                ),
                self._stop,
            )
        except (
            RuntimeError
        ) as error:  # what the closer gives up with; the supervisor starts another
            self._trace.say(process.name, f"ends: {error}")
        self._loop.kill(process)

    def stop(self) -> None:
        """SIGTERM."""
        self._stop.set()
