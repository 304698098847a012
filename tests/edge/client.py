"""A client of the edge as tests need one: posts, reads event streams, renders text."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import httpx2 as httpx

from connectors.sse import Event, Parser
from connectors.store.keys import mint

if TYPE_CHECKING:
    from tests.edge.world import World

ANN = mint(b"a" * 24)
BEN = mint(b"b" * 24)


async def until(ready: Callable[[], Any], timeout_s: float = 5.0) -> None:
    """Waits for what has no event of its own."""
    async with asyncio.timeout(timeout_s):
        while not ready():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


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
async def ask(
    world: "World", body: Any, key: str = ANN, idempotency: str = "k-1", **headers: str
) -> AsyncIterator[Stream]:
    """One POST whose answer is read as a stream."""
    given = world.headers(key, idempotency) | headers
    async with world.client.stream("POST", "/v1/generations", json=body, headers=given) as response:
        yield Stream(response)


@contextlib.asynccontextmanager
async def reread(
    world: "World", generation_id: str, last_id: str | None = None, key: str = ANN
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
