"""The fault proxy against real sockets: each fault does what it says, and is counted."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ops.drill.kafka_tap import OFFSET_COMMIT, PRODUCE, Moment, Trap, Traps
from ops.drill.proxy import HOST, Proxy, Way
from ops.stack.beside import free_ports

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
S_MAX = 5.0


class Echo:
    """A server that answers whole Kafka frames: a reply with the correlation id of each request."""

    def __init__(self, *, frames: bool = False) -> None:
        self.frames = frames
        self.got: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                if self.frames:
                    (length,) = struct.unpack(">i", await reader.readexactly(4))
                    frame = await reader.readexactly(length)
                    self.got.append(frame)
                    writer.write(struct.pack(">i", 4) + frame[4:8])
                elif data := await reader.read(65_536):
                    self.got.append(data)
                    writer.write(data)
                else:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


Connect = Callable[[], Awaitable[Ends]]


@asynccontextmanager
async def proxied(echo: Echo, traps: Traps | None = None) -> AsyncIterator[tuple[Proxy, Connect]]:
    port, target = free_ports(2)
    server = await asyncio.start_server(echo.serve, HOST, target)
    proxy = Proxy(port, target, random.Random(1), traps.tap if traps else None)
    await proxy.start()
    opened: list[Ends] = []

    async def connect() -> Ends:
        opened.append(await asyncio.open_connection(HOST, port))
        return opened[-1]

    try:
        yield proxy, connect
    finally:
        for _, writer in opened:
            writer.transport.abort()
        await proxy.stop()
        server.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(S_MAX):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def asked(ends: Ends, data: bytes, size: int | None = None) -> bytes:
    reader, writer = ends
    writer.write(data)
    return await asyncio.wait_for(reader.readexactly(size or len(data)), S_MAX)


async def ended(ends: Ends) -> bool:
    try:
        return await asyncio.wait_for(ends[0].read(1), S_MAX) == b""
    except ConnectionError:
        return True


async def silent(ends: Ends, data: bytes) -> bool:
    """Nothing comes back for a while, and the connection stays."""
    ends[1].write(data)
    try:
        await asyncio.wait_for(ends[0].read(1), 0.2)
    except TimeoutError:
        return True
    return False


async def test_a_healthy_proxy_changes_nothing() -> None:
    async with proxied(Echo()) as (proxy, connect):
        ends = await connect()
        big = random.Random(7).randbytes(1_000_000)
        assert await asked(ends, big) == big
        assert (proxy.counts.bytes_up, proxy.counts.bytes_down) == (len(big), len(big))
        ends[1].close()
        await until(lambda: not proxy.open_links)
        assert proxy.counts.cut == 0


async def test_a_cut_resets_a_chosen_share() -> None:
    async with proxied(Echo()) as (proxy, connect):
        links = [await connect() for _ in range(10)]
        for ends in links:
            await asked(ends, b"x")
        assert proxy.cut(0.3) == 3 == proxy.counts.cut
        found = [not await silent(ends, b"") for ends in links]
        assert sum(found) == 3
        assert proxy.cut() == 7
        assert all([await ended(ends) for ends in links])


@pytest.mark.parametrize("way", list(Way))
async def test_a_frozen_direction_holds_back_and_goes_on(way: Way) -> None:
    echo = Echo()
    async with proxied(echo) as (proxy, connect):
        ends = await connect()
        await asked(ends, b"before")
        proxy.freeze(way)
        assert await silent(ends, b"held")
        assert (b"held" in echo.got) is (way is Way.DOWN)
        assert proxy.counts.frozen_bytes == 4
        proxy.heal()
        assert await asyncio.wait_for(ends[0].readexactly(4), S_MAX) == b"held"


async def test_a_half_open_connection_swallows_until_it_heals() -> None:
    echo = Echo()
    async with proxied(echo) as (proxy, connect):
        ends = await connect()
        await asked(ends, b"before")
        assert proxy.halve() == 1
        assert await silent(ends, b"lost")
        other = await connect()
        assert await asked(other, b"new") == b"new"
        proxy.heal()
        assert await ended(ends)
        assert b"lost" not in echo.got
        assert proxy.counts.halved == 1


async def test_a_delay_waits_both_ways() -> None:
    async with proxied(Echo()) as (proxy, connect):
        ends = await connect()
        proxy.delay(0.1)
        began = asyncio.get_running_loop().time()
        await asked(ends, b"slow")
        assert asyncio.get_running_loop().time() - began >= 0.2
        assert proxy.counts.delayed_chunks == 2


async def test_a_connection_is_dropped_after_so_many_bytes() -> None:
    echo = Echo()
    async with proxied(echo) as (proxy, connect):
        ends = await connect()
        await asked(ends, b"before")
        proxy.drop_after(6)
        ends[1].write(b"123456789")
        assert await ended(ends)
        assert b"".join(echo.got) in (b"before", b"before123456")
        proxy.heal()
        again = await connect()
        assert await asked(again, b"a longer one") == b"a longer one"


async def test_a_refusing_proxy_closes_at_once() -> None:
    async with proxied(Echo()) as (proxy, connect):
        proxy.refuse()
        assert await ended(await connect())
        assert (proxy.counts.refused, proxy.counts.connections) == (1, 0)


def request(api_key: int, correlation: int, body: bytes) -> bytes:
    frame = struct.pack(">hhi", api_key, 9, correlation) + body
    return struct.pack(">i", len(frame)) + frame


def reply(correlation: int) -> bytes:
    return struct.pack(">ii", 4, correlation)


async def test_a_produce_reply_is_swallowed_and_its_request_served() -> None:
    echo, traps = Echo(frames=True), Traps()
    async with proxied(echo, traps) as (proxy, connect):
        ends = await connect()
        acted: list[int] = []
        trap = Trap(
            PRODUCE, (b"wanted", b"topic"), Moment.BEFORE_REPLY, lambda: acted.append(len(echo.got))
        )
        traps.set(trap)
        assert await asked(ends, request(PRODUCE, 1, b"other topic"), 8) == reply(1)
        assert await asked(ends, request(OFFSET_COMMIT, 2, b"wanted"), 8) == reply(2)
        ends[1].write(request(PRODUCE, 3, b"the wanted topic"))
        assert await ended(ends)
        assert acted == [3], "the server had the request when its reply was kept back"
        assert (trap.closed, trap.left, proxy.counts.cut) == (1, 0, 1)
        again = await connect()
        assert await asked(again, request(PRODUCE, 4, b"wanted topic"), 8) == reply(4)


@pytest.mark.parametrize(
    ("moment", "served", "answered"),
    [
        (Moment.BEFORE_REQUEST, False, False),
        (Moment.AFTER_REQUEST, True, True),
        (Moment.AFTER_REPLY, True, True),
    ],
)
async def test_other_moments(moment: Moment, served: bool, answered: bool) -> None:
    echo, traps = Echo(frames=True), Traps()
    async with proxied(echo, traps) as (_, connect):
        ends = await connect()
        acted: list[str] = []
        traps.set(Trap(OFFSET_COMMIT, (b"group",), moment, lambda: acted.append("now")))
        wire = request(OFFSET_COMMIT, 5, b"a group")
        ends[1].write(wire[:3])
        await ends[1].drain()
        ends[1].write(wire[3:])
        if answered:
            assert await asyncio.wait_for(ends[0].readexactly(8), S_MAX) == reply(5)
        else:
            assert await ended(ends)
        await until(lambda: bool(acted))
        assert bool(echo.got) is served
