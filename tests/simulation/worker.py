"""The real worker as a process of the simulated world, with the scripted engine. Owns the wiring alone."""

from collections.abc import AsyncGenerator, Callable, Mapping
from random import Random
from typing import Final

from connectors.redis.reader import StreamReader
from connectors.redis.writer import StreamWriter
from connectors.store.memory import MemoryStore
from inference.engines.base import Delta, Done, EngineRequest
from inference.engines.scripted import ScriptedEngine
from inference.log import Mint
from inference.payloads import Payloads
from inference.settings import InferenceSettings
from inference.worker import Outside, Worker
from tests.simulation.broker import Broker
from tests.simulation.groups import Group
from tests.simulation.loop import Process
from tests.simulation.redis import SimulatedRedis
from tests.simulation.trace import Trace
from tests.simulation.words import Words
from topics.models import SCRIPTED

SETTINGS: Final = InferenceSettings()
BOOT_S: Final = 1_000.0
"""CLOCK_BOOTTIME when the world begins."""
Computes = Callable[[str, int, str], None]
"""(generation, epoch, incarnation): compute begins."""


class WatchedEngine(ScriptedEngine):
    """Tells of every epoch that it begins to compute."""

    def __init__(self, began: Callable[[str, int], None]) -> None:
        super().__init__(slots=SCRIPTED.slots, context_tokens=SCRIPTED.context_tokens_max)
        self._began = began

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Delta | Done, None]:
        self._began(request.generation_id, request.epoch)
        steps = super().generate(request)
        try:
            async for step in steps:
                yield step
        finally:
            await steps.aclose()


class RealWorker:
    """One life of one worker process."""

    def __init__(
        self,
        broker: Broker,
        trace: Trace,
        rng: Random,
        groups: Mapping[str, Group],
        redis: SimulatedRedis,
        store: MemoryStore,
        computes: Computes,
        name: str,
        life: int,
    ) -> None:
        self._loop = broker.loop
        self._trace = trace
        self._computes = computes
        calls = redis.calls()
        reader = StreamReader(calls)

        async def kept(generation_id: str) -> bytes | None:
            row = await store.payload(generation_id)
            return None if row is None else row.body

        def clock() -> float:
            return BOOT_S + self._loop.time()

        mint = Mint(
            event_id=lambda: f"{rng.getrandbits(128):032x}",
            boot_id=lambda: f"{rng.getrandbits(32):08x}",
            wall_ms=broker.now_ms,
        )
        outside = Outside(
            log=Words(broker, groups, life),
            engine=WatchedEngine(self._began),
            writer=StreamWriter(calls),
            payloads=Payloads(reader.get_payload, kept, clock),
            results=store,
            clock=clock,
            mint=mint,
        )
        self._worker = Worker(outside, SETTINGS, SCRIPTED, name)

    async def main(self, process: Process) -> None:
        """Serves until it ends by itself; then the process is gone."""
        reason = await self._worker.run()
        self._trace.mark("worker ended by itself")
        self._trace.say(process.name, f"ends: {reason}")
        self._loop.kill(process)

    def stop(self) -> None:
        """SIGTERM."""
        self._worker.stop()

    def _began(self, generation_id: str, epoch: int) -> None:
        running = self._worker._answers._running[(generation_id, epoch)]
        try:
            self._computes(generation_id, epoch, running.life.incarnation)
        except AssertionError as error:  # the worker itself would only log it
            self._loop.fail(error)
