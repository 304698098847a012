"""Deadlines, losses and mixed-up answers: what a caller is told while Redis is hurt."""

import asyncio
from collections.abc import Iterator

import pytest

from connectors.errors import RedisAway, RedisRefused
from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.settings import RedisSettings
from connectors.redis.writer import AppendCode, StreamWriter
from tests.support.redis_server import RedisServer, running_redis
from tests.support.streams import delta, order


@pytest.fixture
def own() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


async def test_scripts_are_known_again_after_a_restart(own: RedisServer) -> None:
    calls = Calls(RedisSettings(url=own.url))
    closer, writer = StreamCloser(calls), StreamWriter(calls)
    await closer.open_("gen_1", 1, 1, order())
    own.stop()
    assert (await writer.append("gen_1", 1, 1, "x", b"{}")).code is AppendCode.AWAY
    with pytest.raises(RedisAway):
        await closer.fence("gen_1", 2)
    await asyncio.to_thread(own.start)
    # The first call already goes through: nothing waits for a connection to be found dead.
    assert (await writer.append("gen_1", 1, 1, "x", b"{}")).code is AppendCode.LOST
    await closer.open_("gen_1", 1, 2, order())
    assert (await writer.append("gen_1", 1, 1, "x", b"{}")).code is AppendCode.OK
    await calls.close()


async def test_killed_connections_cost_no_answer(own: RedisServer) -> None:
    calls = Calls(RedisSettings(url=own.url))
    writer = StreamWriter(calls)
    await StreamCloser(calls).open_("gen_1", 1, 1, order())
    for sequence in range(1, 20):
        await asyncio.to_thread(own.raw, b"CLIENT", b"KILL", b"TYPE", b"normal", b"SKIPME", b"yes")
        answer = await writer.append("gen_1", 1, sequence, "text.delta", delta(0, "a"))
        assert answer.code is AppendCode.OK
    await calls.close()


async def test_a_frozen_redis_is_away_by_the_deadline_and_answers_never_mix(
    own: RedisServer,
) -> None:
    calls = Calls(RedisSettings(url=own.url, deadline_s=0.2))
    for number in range(10):
        await calls.command("SET", f"key{number}", number)
    frozen = own.send_only(b"DEBUG", b"SLEEP", b"1")
    asked = [asyncio.create_task(calls.command("GET", f"key{number}")) for number in range(10)]
    began = asyncio.get_running_loop().time()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert asyncio.get_running_loop().time() - began < 0.9
    assert all(isinstance(answer, RedisAway) for answer in answers)
    frozen.recv(16)
    frozen.close()
    for number in range(10):
        assert await calls.command("GET", f"key{number}") == str(number).encode()
    await calls.close()


async def test_callers_that_give_up_disturb_nobody(own: RedisServer) -> None:
    calls = Calls(RedisSettings(url=own.url))
    for number in range(50):
        await calls.command("SET", f"key{number}", number)

    async def ask(number: int) -> bytes:
        answer: bytes = await calls.command("GET", f"key{number}")
        return answer

    for round_ in range(40):
        tasks = [asyncio.create_task(ask(number)) for number in range(50)]
        await asyncio.sleep(0)
        for task in tasks[round_ % 3 :: 3]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        for number, answer in enumerate(answers):
            assert isinstance(answer, asyncio.CancelledError) or answer == str(number).encode()
    await calls.close()


async def test_one_wrong_command_does_not_spoil_its_neighbours(own: RedisServer) -> None:
    calls = Calls(RedisSettings(url=own.url, connections=1))
    await calls.command("SET", "text", "private words")
    answers: list[object] = await asyncio.gather(
        calls.command("GET", "text"),
        calls.command("XLEN", "text"),
        calls.command("GET", "text"),
        return_exceptions=True,
    )
    good, bad, after = answers
    assert good == after == b"private words"
    assert isinstance(bad, RedisRefused)
    assert "private" not in str(bad)
    await calls.close()


async def test_too_many_waiting_calls_are_refused_not_kept(own: RedisServer) -> None:
    calls = Calls(RedisSettings(url=own.url, waiting_calls_max=3, connections=1))
    asked = [asyncio.create_task(calls.command("PING")) for _ in range(5)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert answers.count(b"PONG") >= 3
    assert all(a == b"PONG" or isinstance(a, RedisAway) for a in answers)
    assert any(isinstance(a, RedisAway) for a in answers)
    await calls.close()


async def test_after_close_nothing_is_asked(own: RedisServer) -> None:
    calls = Calls(RedisSettings(url=own.url))
    assert await calls.command("PING") == b"PONG"
    await calls.close()
    with pytest.raises(RedisAway):
        await calls.command("PING")
