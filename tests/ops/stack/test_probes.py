"""The probes against servers that answer well, badly, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from ops.stack import cassandra, kafka, probes, redis
from ops.stack.part import NotReady
from ops.stack.probes import http_ok


@asynccontextmanager
async def server(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[int]:
    """A loopback server that answers each first read; None: it never does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = answer(await reader.read(4096))
        if said is None:
            await reader.read()
        else:
            writer.write(said)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def test_nothing_listens() -> None:
    async with server(lambda _: b"") as port:
        pass
    for probe in (kafka.watch, cassandra.watch, redis.watch):
        with pytest.raises(NotReady, match=f"port {port}"):
            await probe(port)


async def test_a_server_that_hangs_costs_the_deadline_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "EXCHANGE_S_MAX", 0.05)
    monkeypatch.setattr(probes, "HTTP_S_MAX", 0.05)
    async with server(lambda _: None) as port:
        with pytest.raises(NotReady, match="no answer"):
            await redis.watch(port)
        with pytest.raises(NotReady, match="no answer"):
            await http_ok(port, "/readyz")


async def test_kafka_echoes_the_correlation() -> None:
    def echo(asked: bytes) -> bytes:
        return b"\0\0\0\x0e" + asked[8:12] + bytes(10)

    async with server(echo) as port:
        await kafka.watch(port)
    async with server(lambda _: bytes(64)) as port:
        with pytest.raises(NotReady, match="another protocol"):
            await kafka.watch(port)


async def test_cassandra_says_what_it_supports() -> None:
    async with server(lambda asked: b"\x84\0\0\0\x06" + asked) as port:
        await cassandra.watch(port)
    async with server(lambda _: b"HTTP/1.1 400 Bad Request\r\n") as port:
        with pytest.raises(NotReady, match="another protocol"):
            await cassandra.watch(port)


async def test_redis_must_not_evict() -> None:
    def policy(name: bytes) -> Callable[[bytes], bytes]:
        told = b"*2\r\n$16\r\nmaxmemory-policy\r\n$%d\r\n%b\r\n" % (len(name), name)
        return lambda asked: b"+PONG\r\n" if asked.startswith(b"PING") else told

    async with server(policy(b"noeviction")) as port:
        await redis.ready(port)
    async with server(policy(b"allkeys-lru")) as port:
        with pytest.raises(NotReady, match="it evicts keys"):
            await redis.ready(port)


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (b"HTTP/1.1 503 Service Unavailable\r\n\r\n", "answered 503"),
        (b"+PONG\r\n", "no answer"),
        (b"HTTP/1.1 many\r\n", "no answer"),
        (b"x" * 10_000, "no answer"),
    ],
)
async def test_http_that_is_not_200(answer: bytes, seen: str) -> None:
    async with server(lambda _: answer) as port:
        with pytest.raises(NotReady, match=seen):
            await http_ok(port, "/readyz")


async def test_http_200() -> None:
    async with server(lambda _: b"HTTP/1.1 200 OK\r\n\r\n") as port:
        await http_ok(port, "/readyz")
