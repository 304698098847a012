"""One edge on a real socket over a real Redis and the store's twin; the log answers by script.

`Machines` is no machine: a test says what each question is answered with. Streams are written by
the worker's own writer and ended by the closer's own plan.
"""

import asyncio
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import httpx2 as httpx
import msgspec
from prometheus_client import CollectorRegistry

from connectors.closer.apply import apply
from connectors.log import Appended, Record
from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.push import PushConnection
from connectors.redis.reader import StreamReader
from connectors.redis.settings import RedisSettings
from connectors.redis.writer import StreamWriter
from connectors.sse import Event, Parser
from connectors.store import Key
from connectors.store.keys import hash_key, mint
from connectors.store.memory import MemoryStore
from connectors.store.settings import StoreSettings
from edge.app import build
from edge.metrics import Metrics
from edge.parts import Parts
from edge.server import EdgeServer, listen, make_server
from edge.settings import EdgeSettings
from edge.wiring import make_parts, real_mint
from schemas.generated.types import (
    AccountsInbox,
    Code,
    EdgeReply,
    Ended,
    FinishReason,
    Hold,
    Limit,
    LimitKind,
    Limits,
    OnDisconnect,
    Open,
    Phase,
    Query,
    Queued,
    Refused,
    Repeated,
    RunsInbox,
    Status,
    Stop,
    StreamControl,
    Submit,
    Terminal,
    Tier,
    Usage,
)
from topics import wire
from topics.topic import Topic

SECRET: Final = b"s" * 32
NOW_MS: Final = 1_793_900_000_000
ANN: Final = mint(b"a" * 24)
BEN: Final = mint(b"b" * 24)
RESET_MS: Final = NOW_MS + 600_000
MESSAGES: Final = Limit(
    name="messages",
    kind=LimitKind.FIXED_WINDOW,
    limit=40,
    used=3,
    held=1,
    remaining=36,
    window_s=10_800,
    reset_at_ms=RESET_MS,
)
SLOTS: Final = Limit(name="slots", kind=LimitKind.SLOTS, limit=2, used=1, held=0, remaining=1)
USAGE: Final = Usage(input_tokens=3, cached_input_tokens=0, output_tokens=5)

Answer = Refused | Queued | Repeated | Status | Limits
Script = Callable[[Topic, str, Any], Answer | None]


class Machines:
    """Takes what the edge sends and answers as the test's script says. `None`: no answer."""

    def __init__(self) -> None:
        self.sent: list[tuple[Topic, str, Any]] = []
        self.script: Script = lambda topic, key, value: default_answer(value)
        self.deliver: Callable[[list[Record]], None] = lambda records: None
        self.acknowledges = True
        self._numbers = itertools.count()

    def send(
        self, topic: Topic, key: str, value: msgspec.Struct, partition: int | None = None
    ) -> "asyncio.Future[Appended]":
        loop = asyncio.get_running_loop()
        self.sent.append((topic, key, value))
        future: asyncio.Future[Appended] = loop.create_future()
        if self.acknowledges:
            future.set_result(Appended(0, next(self._numbers), NOW_MS))
        answer = self.script(topic, key, value)
        if answer is not None:
            self.reply(value.body.request_id, answer)  # type: ignore[attr-defined]
        return future

    def reply(self, request_id: str, answer: Answer) -> None:
        raw = wire.encode(EdgeReply(event_id="e", request_id=request_id, body=answer))
        record = Record("replies", 0, next(self._numbers), NOW_MS, request_id, raw)
        asyncio.get_running_loop().call_soon(self.deliver, [record])

    def submits(self) -> list[Submit]:
        return [
            value.body
            for _, _, value in self.sent
            if isinstance(value, AccountsInbox) and isinstance(value.body, Submit)
        ]

    def bodies(self) -> list[Any]:
        return [value.body for _, _, value in self.sent]


def queued(submit: Submit) -> Queued:
    return Queued(
        generation_id=submit.spec.generation_id,
        admitted_at_ms=NOW_MS,
        model=submit.spec.model,
        model_version=submit.spec.model_version,
        queue_deadline_at_ms=NOW_MS + 15_000,
        limits=(MESSAGES, SLOTS),
    )


def status(generation_id: str, phase: Phase, **more: Any) -> Status:
    fields: dict[str, Any] = {
        "generation_id": generation_id,
        "known": True,
        "phase": phase,
        "stop_requested": False,
        "hold": Hold.CONSUMED,
        "model": "scripted",
        "epoch": 1,
        "created_at_ms": NOW_MS,
    }
    return Status(**(fields | more))


def unknown(generation_id: str) -> Status:
    return Status(
        generation_id=generation_id,
        known=False,
        stop_requested=False,
        model="",
        epoch=0,
        created_at_ms=0,
    )


def default_answer(value: Any) -> Answer | None:
    match value.body:
        case Submit():
            return queued(value.body)
        case Query() if isinstance(value, RunsInbox):
            return status(value.body.generation_id or "", Phase.RUNNING)
        case Query():
            return Limits(limits=(MESSAGES, SLOTS))
        case Stop():
            return status(value.body.generation_id, Phase.STOPPING, stop_requested=True)
    return None


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


def question(text: str = "hi", **more: Any) -> dict[str, Any]:
    asked = {"model": "scripted", "messages": [{"role": "user", "content": text}]}
    return {**asked, "stream": True, **more}


class Stream:
    """Reads one response as a client would."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.raw = b""
        self._parser = Parser()
        self._chunks = response.aiter_raw()
        self._events: list[Event] = []
        self.seen: list[Event] = []

    @property
    def generation_id(self) -> str:
        return str(self.response.headers["x-generation-id"])

    async def next(self, timeout_s: float = 5.0) -> Event:
        """The next event. Raises StopAsyncIteration at the end of the stream."""
        async with asyncio.timeout(timeout_s):
            while not self._events:
                chunk = await anext(self._chunks)
                self.raw += chunk
                self._events += self._parser.feed(chunk)
        event = self._events.pop(0)
        self.seen.append(event)
        return event

    async def rest(self, timeout_s: float = 10.0) -> list[Event]:
        """All events to the end."""
        found = []
        with contextlib.suppress(StopAsyncIteration):
            while True:
                found.append(await self.next(timeout_s))
        return found


def names(events: list[Event]) -> list[str]:
    return [event.event.removeprefix("generation.") for event in events]


def data(event: Event) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(event.data)
    return made


def text_of(events: list[Event]) -> str:
    """What a client renders: deltas at their offsets, snapshots and resets obeyed."""
    text = ""
    for event in events:
        body = data(event)
        if event.event == "generation.text.delta":
            assert body["offset"] <= len(text), "a hole in the text"
            text = text[: body["offset"]] + body["delta"]
        elif event.event == "generation.snapshot":
            text = body["text"]
        elif event.event == "generation.reset":
            text = text[: body["offset"]]
    return text


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
        settings=EdgeSettings(**settings),
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
        async with asyncio.timeout(5):
            while not (server.started and push.connected):
                await asyncio.sleep(0.005)
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


@contextlib.asynccontextmanager
async def ask(
    world: World, body: Any, key: str = ANN, idempotency: str = "k-1", **headers: str
) -> AsyncIterator[Stream]:
    """One POST whose answer is read as a stream."""
    given = world.headers(key, idempotency) | headers
    async with world.client.stream("POST", "/v1/generations", json=body, headers=given) as response:
        yield Stream(response)


@contextlib.asynccontextmanager
async def reread(
    world: World, generation_id: str, last_id: str | None = None, key: str = ANN
) -> AsyncIterator[Stream]:
    """One GET of a generation's stream."""
    given = world.headers(key) | ({} if last_id is None else {"last-event-id": last_id})
    path = f"/v1/generations/{generation_id}/stream"
    async with world.client.stream("GET", path, headers=given) as response:
        yield Stream(response)


async def raw_exchange(port: int, sent: bytes, timeout_s: float = 5.0) -> bytes:
    """Bytes to the public port and all bytes that come back until it closes or falls silent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        writer.write(sent)
        async with asyncio.timeout(timeout_s):
            while chunk := await reader.read(65_536):
                got += chunk
    except (TimeoutError, ConnectionError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return got


def small_socket(port: int) -> socket.socket:
    """A client with a receive buffer of 4 kB."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.connect(("127.0.0.1", port))
    return made
