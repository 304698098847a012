"""The push connection under losses: kicked out, frozen, restarted; nothing stays silently lost."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from connectors.redis.layout import channel
from connectors.redis.push import PushConnection
from tests.contract.redis.servers import Server

MESSAGE = b"1-1 text.delta {}"


class Heard:
    """Keeps what a push connection delivers."""

    def __init__(self, server: Server) -> None:
        self.messages: list[tuple[str, bytes]] = []
        self.gaps = 0
        self.push = PushConnection(
            server.quick, self._deliver, self._gap, lambda: 0.0, make_link=server.make_link
        )
        self.push.start()

    def _deliver(self, name: str, message: bytes) -> None:
        self.messages.append((name, message))

    def _gap(self) -> None:
        self.gaps += 1


async def until(condition: Callable[[], bool], s_max: float = 10.0) -> None:
    async with asyncio.timeout(s_max):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.fixture
async def heard(server: Server) -> AsyncIterator[Heard]:
    heard = Heard(server)
    yield heard
    await heard.push.close()


async def publish(server: Server, name: str, message: bytes = MESSAGE) -> int:
    count: int = await server.ask("SPUBLISH", name, message)
    return count


async def test_a_confirmed_channel_misses_nothing(server: Server, heard: Heard) -> None:
    names = [channel(f"gen_{number}") for number in range(300)]
    for name in names:
        heard.push.subscribe(name)
    assert all([await heard.push.confirmed(name, 5) for name in names])
    assert heard.push.connected
    for name in names[::50]:
        assert await publish(server, name) == 1
    await until(lambda: len(heard.messages) == 6)
    assert heard.messages == [(name, MESSAGE) for name in names[::50]]
    assert heard.gaps == 0


async def test_an_unwanted_channel_is_left(server: Server, heard: Heard) -> None:
    name = channel("gen_1")
    heard.push.subscribe(name)
    assert await heard.push.confirmed(name, 5)
    heard.push.unsubscribe(name)
    assert not await heard.push.confirmed(name, 0.01)
    async with asyncio.timeout(5):
        while await publish(server, name) != 0:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    heard.push.subscribe(name)
    assert await heard.push.confirmed(name, 5)
    heard.messages.clear()
    assert await publish(server, name, b"1-2 x {}") == 1
    await until(lambda: heard.messages == [(name, b"1-2 x {}")])


async def test_wanted_and_unwanted_in_haste_ends_as_last_asked(
    server: Server, heard: Heard
) -> None:
    name = channel("gen_1")
    for _ in range(20):
        heard.push.subscribe(name)
        await asyncio.sleep(0)
        heard.push.unsubscribe(name)
        heard.push.subscribe(name)
        assert await heard.push.confirmed(name, 5)
        assert await publish(server, name) == 1
        heard.push.unsubscribe(name)


async def test_kicked_out_it_comes_back_and_says_so(server: Server, heard: Heard) -> None:
    name = channel("gen_1")
    heard.push.subscribe(name)
    assert await heard.push.confirmed(name, 5)
    await server.cut()
    await until(lambda: heard.gaps == 1 and heard.push.connected)
    assert await publish(server, name) == 1
    await until(lambda: heard.messages == [(name, MESSAGE)])


async def test_a_frozen_redis_is_noticed_and_left_behind(server: Server, heard: Heard) -> None:
    name = channel("gen_1")
    heard.push.subscribe(name)
    assert await heard.push.confirmed(name, 5)
    await server.freeze(2)
    async with asyncio.timeout(1.5):
        while heard.push.connected:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    await until(lambda: heard.push.connected and heard.gaps == 1)
    assert await publish(server, name) == 1
    await until(lambda: heard.messages == [(name, MESSAGE)])


async def test_what_is_asked_for_while_it_is_away_is_subscribed_later(
    server: Server, heard: Heard
) -> None:
    first, second = channel("gen_1"), channel("gen_2")
    heard.push.subscribe(first)
    assert await heard.push.confirmed(first, 5)
    await server.freeze(1)
    await until(lambda: not heard.push.connected)
    heard.push.subscribe(second)
    assert not await heard.push.confirmed(second, 0.01)
    await until(lambda: heard.gaps == 1 and heard.push.connected)
    assert await heard.push.confirmed(second, 5)
    for name in (first, second):
        assert await publish(server, name) == 1


async def test_a_restart_is_a_gap(server: Server, heard: Heard) -> None:
    name = channel("gen_1")
    heard.push.subscribe(name)
    assert await heard.push.confirmed(name, 5)
    await server.restart()
    await until(lambda: heard.gaps == 1 and heard.push.connected)
    assert await publish(server, name) == 1
