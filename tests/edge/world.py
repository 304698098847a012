"""One edge on a real socket over a real Redis and the store's twin; the log answers by script.

Streams are written by the worker's own writer and ended by the closer's own hand.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2 as httpx
import msgspec
from prometheus_client import CollectorRegistry

from connectors.closer.apply import apply
from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.push import PushConnection
from connectors.redis.reader import StreamReader
from connectors.redis.settings import RedisSettings
from connectors.redis.writer import StreamWriter
from connectors.store import Key
from connectors.store.keys import hash_key
from connectors.store.memory import MemoryStore
from connectors.store.settings import StoreSettings
from edge.app import build
from edge.metrics import Metrics
from edge.parts import Parts
from edge.server import EdgeServer, listen, make_server
from edge.settings import EdgeSettings
from edge.wiring import make_parts, real_mint
from schemas.generated.types import (
    Code,
    Ended,
    FinishReason,
    Hold,
    OnDisconnect,
    Open,
    RunsInbox,
    StreamControl,
    Terminal,
    Tier,
    Usage,
)
from tests.edge.client import ANN, BEN, until
from tests.edge.machines import NOW_MS, Machines

SECRET: Final = b"s" * 32
# A busy machine must not turn a test red; what a wait takes is told by the tests of that wait.
PATIENT: Final = {"payload_ms_max": 3_000, "decision_ms_max": 3_000, "answer_ms_max": 3_000}
USAGE: Final = Usage(input_tokens=3, cached_input_tokens=0, output_tokens=5)


class World:
    """Everything a test needs to play the rest of Milena."""

    def __init__(
        self, parts: Parts, machines: Machines, calls: Calls, store: MemoryStore, port: int
    ) -> None:
        self.parts = parts
        self.machines = machines
        self.store = store
        self.port = port
        self.writer = StreamWriter(calls)
        self.closer = StreamCloser(calls)
        self.reader = StreamReader(calls)
        self._numbers = itertools.count(1)
        self._lengths: dict[str, int] = {}
        self.client: httpx.AsyncClient

    async def open(self, generation_id: str, user_id: str = "usr_ann") -> None:
        order = Open(
            user_id=user_id,
            runs_key="run_x",
            admitted_at_ms=NOW_MS,
            status="queued",
            ttl_ms=600_000,
            on_disconnect=OnDisconnect.CANCEL,
            disconnect_grace_ms=10_000,
        )
        await self.closer.open_(generation_id, 0, next(self._numbers), order)

    async def say(self, generation_id: str, *texts: str, start: int = 1, epoch: int = 1) -> None:
        """Deltas, as a worker appends them: one entry each, from sequence `start`."""
        offset = self._lengths.get(generation_id, 0)
        for at, text in enumerate(texts):
            data = {"index": 0, "offset": offset, "delta": text}
            await self.writer.append(
                generation_id, epoch, start + at, "text.delta", msgspec.json.encode(data)
            )
            offset += len(text)
        self._lengths[generation_id] = offset

    async def end(
        self,
        generation_id: str,
        terminal: Terminal = Terminal.COMPLETED,
        *,
        code: Code | None = None,
        user_id: str = "usr_ann",
        epoch: int = 1,
    ) -> None:
        """The closer's end: the row first, then the terminal."""
        ended = Ended(
            terminal=terminal,
            finish_reason=FinishReason.STOP,
            code=code,
            usage=USAGE,
            hold=Hold.CONSUMED,
            closing_epoch=epoch + 1,
            text_epoch=epoch,
            keep_row=False,
            user_id=user_id,
            runs_key="run_x",
            model="scripted",
            model_version="scripted@1",
            admitted_at_ms=NOW_MS,
            ended_at_ms=NOW_MS + 1_000,
        )
        order = StreamControl(
            event_id="c",
            generation_id=generation_id,
            epoch=epoch,
            number=next(self._numbers),
            body=ended,
        )

        async def tell(key: str, event: RunsInbox) -> None:
            """Nobody needs to know here."""

        await apply(self.closer, self.store, tell, order)

    async def whole(self, generation_id: str, *texts: str) -> None:
        """A generation from its opening to its end."""
        await self.open(generation_id)
        await self.say(generation_id, *texts)
        await self.end(generation_id)

    def headers(self, key: str = ANN, idempotency: str | None = None) -> dict[str, str]:
        given = {"authorization": f"Bearer {key}"}
        return given if idempotency is None else given | {"idempotency-key": idempotency}


@contextlib.asynccontextmanager
async def running(redis_url: str, **settings: Any) -> AsyncIterator[World]:
    """An edge that serves until the block is left."""
    machines = Machines()
    redis = RedisSettings(url=redis_url, deadline_s=1.0, reconnect_s_max=0.2)
    calls = Calls(redis)
    now_s = real_mint().now_s
    store = MemoryStore(now_s, StoreSettings())
    for key, user_id, tier in ((ANN, "usr_ann", Tier.FREE), (BEN, "usr_ben", Tier.PAID)):
        row = Key(
            key_hash=hash_key(SECRET, key),
            key_id="key_1",
            user_id=user_id,
            tier=tier,
            name="test",
            created_at_ms=NOW_MS,
        )
        await store.put_key(row)
    parts = make_parts(
        settings=EdgeSettings(**(PATIENT | settings)),
        secret=SECRET,
        reply_partition=3,
        mint=real_mint(),
        metrics=Metrics(CollectorRegistry()),
        producer=machines,
        log=StreamReader(calls),
        store=store,
        scripted=True,
    )
    machines.deliver = parts.replies.deliver
    push = PushConnection(redis, parts.hub.deliver, parts.hub.gap)
    parts.hub.bind(push)
    push.start()
    listening = listen("127.0.0.1", 0, parts.settings.socket_send_bytes)
    server = make_server(build(parts), 1.0)
    serving = asyncio.create_task(server.serve([listening]))
    clock = asyncio.create_task(parts.hub.run())
    port = listening.getsockname()[1]
    world = World(parts, machines, calls, store, port)
    try:
        await until(lambda: server.started and push.connected)
        limits = httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=20, limits=limits
        ) as client:
            world.client = client
            yield world
    finally:
        await _stop(server, serving, parts)
        clock.cancel()
        await asyncio.gather(clock, return_exceptions=True)
        await parts.hub.close()
        await push.close()
        await calls.close()
        parts.threads.shutdown(wait=False)


async def _stop(server: EdgeServer, serving: "asyncio.Task[None]", parts: Parts) -> None:
    server.should_exit = True
    parts.hub.end_all("drain")
    await asyncio.wait_for(serving, 10)
