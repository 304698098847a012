"""What callers are told while a server is hurt, and what its faults leave behind."""

import asyncio

from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.policy import check_policy
from connectors.redis.reader import StreamReader
from connectors.redis.writer import AppendCode, StreamWriter
from tests.contract.redis.servers import Server
from tests.support.streams import delta, order

GEN = "gen_1"


async def test_both_are_fit_to_be_used(calls: Calls) -> None:
    assert int((await check_policy(calls)).partition(".")[0]) >= 7


async def test_a_restart_loses_keys_and_scripts_and_nothing_else(
    server: Server, calls: Calls
) -> None:
    closer, writer = StreamCloser(calls), StreamWriter(calls)
    await closer.open_(GEN, 1, 1, order())
    await server.restart()
    assert (await writer.append(GEN, 1, 1, "x", b"{}")).code is AppendCode.LOST
    await closer.open_(GEN, 1, 2, order())
    assert (await writer.append(GEN, 1, 1, "x", b"{}")).code is AppendCode.OK


async def test_broken_connections_cost_no_answer(server: Server, calls: Calls) -> None:
    writer = StreamWriter(calls)
    await StreamCloser(calls).open_(GEN, 1, 1, order())
    for sequence in range(1, 10):
        await server.cut()
        answer = await writer.append(GEN, 1, sequence, "text.delta", delta(0, "a"))
        assert answer.code is AppendCode.OK
    assert len(await StreamReader(calls).read(GEN, None)) == 9


async def test_a_frozen_server_executes_late_what_nobody_waits_for(
    server: Server, calls: Calls
) -> None:
    closer, writer = StreamCloser(calls), StreamWriter(calls)
    await closer.open_(GEN, 1, 1, order())
    assert (await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))).code is AppendCode.OK
    await server.freeze(1.6)
    data = delta(1, "b")
    assert (await writer.append(GEN, 1, 2, "text.delta", data)).code is AppendCode.AWAY
    # Executed all the same, once the server goes on.
    assert len(await StreamReader(calls).read(GEN, None)) == 2
    assert (await writer.append(GEN, 1, 2, "text.delta", data)).code is AppendCode.OK
    assert len(await StreamReader(calls).read(GEN, None)) == 2


async def test_callers_that_give_up_disturb_nobody(calls: Calls) -> None:
    for number in range(20):
        await calls.command("SET", f"key{number}", number)
    for round_ in range(10):
        tasks = [asyncio.create_task(calls.command("GET", f"key{n}")) for n in range(20)]
        await asyncio.sleep(0)
        for task in tasks[round_ % 3 :: 3]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        for number, answer in enumerate(answers):
            assert isinstance(answer, asyncio.CancelledError) or answer == str(number).encode()


async def test_keys_leave_after_their_time(server: Server, calls: Calls) -> None:
    closer, writer = StreamCloser(calls), StreamWriter(calls)
    await closer.open_(GEN, 1, 1, order(ttl_ms=150))
    assert (await writer.append(GEN, 1, 1, "x", b"{}")).code is AppendCode.OK
    assert await server.ask("DBSIZE") == 2
    await asyncio.sleep(0.2)
    assert (await writer.append(GEN, 1, 2, "x", b"{}")).code is AppendCode.LOST
    assert await StreamReader(calls).read(GEN, None) == []
    assert await StreamReader(calls).live(GEN) is None
