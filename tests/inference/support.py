"""One worker in this process, with everything around it that a test can turn: a log in memory, a real
Redis, a store in memory, the scripted engine, and machines that answer by a short rule.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.layout import Entry
from connectors.redis.reader import StreamReader
from connectors.redis.settings import RedisSettings
from connectors.redis.writer import StreamWriter
from connectors.store.memory import MemoryStore
from connectors.store.rows import Payload
from connectors.store.settings import StoreSettings
from inference.engines.base import Engine
from inference.engines.scripted import ScriptedEngine
from inference.payloads import Payloads
from inference.settings import InferenceSettings
from inference.worker import Outside, Worker
from schemas.generated.types import (
    Api,
    Finished,
    Lane,
    OnDisconnect,
    OnWorkerLoss,
    Open,
    Spec,
    StepRequest,
    Tier,
)
from tests.inference.played import Clock, Machines
from tests.support.log_double import LogDouble
from topics.models import SCRIPTED, Model
from topics.registry import LANE_TOPICS

Value = TypeVar("Value")
SCRIPTED_SMALL = msgspec.structs.replace(SCRIPTED, slots=1)
QUICK = InferenceSettings(flush_ms=50, idle_ms=200, heartbeat_s=0.5, drain_s=2.0)


class Bench:
    """A worker and its surroundings. `ask` puts a request in; the rest is looked at."""

    def __init__(
        self,
        redis_url: str,
        settings: InferenceSettings,
        model: Model,
        engine: Engine | None,
        played: bool,
    ) -> None:
        self.clock = Clock()
        self.log = LogDouble(self.clock.ms)
        self.calls = Calls(RedisSettings(url=redis_url, deadline_s=0.5))
        self.streams = StreamCloser(self.calls)
        self.reader = StreamReader(self.calls)
        self.store = MemoryStore(self.clock.s, StoreSettings())
        # With `played` machines answer by a short rule; else the test brings the real ones.
        self.machines = Machines(self.log, self.clock, played)
        self.engine = engine or ScriptedEngine(slots=model.slots)
        self.model = model
        self._settings = settings
        self.worker = self.make("worker-0")
        self._running: asyncio.Task[str | None] | None = None
        self._asked = 0

    def make(self, name: str) -> Worker:
        async def kept(generation_id: str) -> bytes | None:
            row = await self.store.payload(generation_id)
            return None if row is None else row.body

        outside = Outside(
            log=self.log,
            engine=self.engine,
            writer=StreamWriter(self.calls),
            payloads=Payloads(self.reader.get_payload, kept, self.clock.s),
            results=self.store,
            clock=self.clock.s,
        )
        return Worker(outside, self._settings, self.model, name)

    async def start(self) -> None:
        self._running = asyncio.create_task(self.worker.run())
        await until(lambda: not self.worker.missing())

    async def stop(self) -> str | None:
        """Why the worker ended."""
        assert self._running is not None
        self.worker.stop()
        return await asyncio.wait_for(self._running, 30)

    async def gone(self, seconds: float = 30) -> str | None:
        """Waits until it ends by itself."""
        assert self._running is not None
        return await asyncio.wait_for(asyncio.shield(self._running), seconds)

    async def ask(
        self,
        script: dict[str, Any] | str,
        lane: Lane = Lane.PAID,
        opened: bool = True,
        payload: bool = True,
        generation_id: str | None = None,
        **spec: Any,
    ) -> str:
        """Puts one request into a lane, as edge, runs and closer would; its generation id."""
        self._asked += 1
        generation_id = generation_id or f"gen_{self._asked:026d}"
        if payload:
            await self.put_payload(generation_id, script)
        if opened:
            await self.open(generation_id)
        self.request(generation_id, lane, **spec)
        return generation_id

    def request(self, generation_id: str, lane: Lane = Lane.PAID, **spec: Any) -> None:
        asked = self.spec(generation_id, lane=lane, **spec)
        step = StepRequest(
            event_id=f"step/{generation_id}",
            user_id="usr_1",
            epoch=1,
            step=1,
            admitted_at_ms=self.clock.ms(),
            queue_deadline_at_ms=self.clock.ms() + 15_000,
            spec=asked,
        )
        self.log.send(LANE_TOPICS[(self.model.pool, lane)], asked.runs_key, step)

    async def put_payload(self, generation_id: str, script: dict[str, Any] | str) -> None:
        """What the edge keeps near: one user message."""
        content = script if isinstance(script, str) else json.dumps({"script": script})
        body = msgspec.json.encode({"messages": [{"role": "user", "content": content}]})
        await self.reader.put_payload(generation_id, body, 60)

    def spec(self, generation_id: str, **more: Any) -> Spec:
        """A paid request for the bench's model."""
        return Spec(
            **{
                "generation_id": generation_id,
                "runs_key": f"run_{generation_id}",
                "api": Api.GENERATIONS,
                "tier": Tier.PAID,
                "lane": Lane.PAID,
                "model": self.model.alias,
                "model_version": self.model.version,
                "pool": self.model.pool,
                "input_tokens": 3,
                "output_tokens_max": 5_000,
                "queue_wait_ms_max": 15_000,
                "run_ms_max": 60_000,
                "on_disconnect": OnDisconnect.CANCEL,
                "on_worker_loss": OnWorkerLoss.FAIL,
                **more,
            }
        )

    async def open(self, generation_id: str, number: int = 1) -> None:
        """What the closer does at `Open`."""
        await self.streams.open_(
            generation_id,
            1,
            number,
            Open(
                user_id="usr_1",
                runs_key=f"run_{generation_id}",
                admitted_at_ms=self.clock.ms(),
                status="queued",
                ttl_ms=600_000,
                on_disconnect=OnDisconnect.CANCEL,
                disconnect_grace_ms=10_000,
            ),
        )

    async def entries(self, generation_id: str) -> list[Entry]:
        return await self.reader.read(generation_id, None)

    async def shown(self, generation_id: str) -> str:
        """What a reader of the stream renders; asserts that nothing is out of place."""
        text, last = "", (0, 0)
        for entry in await self.entries(generation_id):
            assert entry.id > last
            last = entry.id
            value = json.loads(entry.data)
            if entry.event == "snapshot":
                text = value["text"]
            elif value["offset"] == len(text):
                text += value["delta"]
            else:
                assert text == "", "only a stream that began anew may begin in the middle"
        return text

    async def finished(self, generation_id: str, seconds: float = 15) -> Finished:
        await until(lambda: self.machines.ended(generation_id) is not None, seconds)
        found = self.machines.ended(generation_id)
        assert found is not None
        return found

    async def kill(self) -> None:
        """The worker is gone at once and says nothing, as by kill -9."""
        assert self._running is not None
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    async def close(self) -> None:
        if self._running is not None and not self._running.done():
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        await self.engine.close()
        await self.calls.close()


@contextlib.asynccontextmanager
async def bench(
    redis_url: str,
    settings: InferenceSettings = QUICK,
    model: Model = SCRIPTED,
    engine: Engine | None = None,
    start: bool = True,
    played: bool = True,
) -> AsyncIterator[Bench]:
    made = Bench(redis_url, settings, model, engine, played)
    try:
        if start:
            await made.start()
        yield made
    finally:
        await made.close()


def payload_row(generation_id: str, content: str) -> Payload:
    """A stored request with one user message."""
    return Payload(
        generation_id=generation_id,
        user_id="usr_1",
        runs_key=f"run_{generation_id}",
        api=Api.GENERATIONS,
        model=SCRIPTED.alias,
        model_version=SCRIPTED.version,
        body=msgspec.json.encode({"messages": [{"role": "user", "content": content}]}),
        created_at_ms=1,
    )


async def until(holds: Callable[[], bool], seconds: float = 10) -> None:
    """Waits for a condition."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.005)


async def until_shown(
    ask: Callable[[], Awaitable[Value]], holds: Callable[[Value], bool], seconds: float = 10
) -> Value:
    """Asks until the answer fits."""
    async with asyncio.timeout(seconds):
        while not holds(found := await ask()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return found
