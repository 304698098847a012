"""Streams on real sockets: quiet ones, slow ones, broken ones, and the readers beside them."""

import asyncio
import contextlib
import json
import socket
from typing import Any

import httpx2 as httpx
import pytest

from connectors.store import Result, ResultStatus, RowPhase
from edge.wiring import real_mint
from schemas.generated.types import FinishReason, Hold
from tests.edge.client import (
    ANN,
    ask,
    data,
    names,
    question,
    raw_exchange,
    reread,
    small_socket,
    text_of,
    until,
)
from tests.edge.machines import NOW_MS
from tests.edge.world import World, running


def ended_row(generation_id: str, text: str) -> Result:
    return Result(
        generation_id=generation_id,
        user_id="usr_ann",
        status=ResultStatus.COMPLETED,
        model="scripted",
        epoch=2,
        text=text,
        code_points=len(text),
        finish_reason=FinishReason.STOP,
        error_code=None,
        partial=True,
        input_tokens=1,
        cached_input_tokens=0,
        output_tokens=2,
        hold=Hold.CONSUMED,
        terminal_id="2-2000000",
        admitted_at_ms=NOW_MS,
        ended_at_ms=NOW_MS,
    )


async def test_headers_and_first_events_come_at_once(world: World) -> None:
    started_s = real_mint().now_s()
    headers = {"accept-encoding": "gzip, deflate, br"}
    async with ask(world, question(), **headers) as stream:
        assert "content-encoding" not in stream.response.headers
        assert "content-length" not in stream.response.headers
        assert names([await stream.next(), await stream.next()]) == ["created", "queued"]
        assert real_mint().now_s() - started_s < 1.0
        await world.open(stream.generation_id)
        for at, word in enumerate(("a", "b", "c")):
            await world.say(stream.generation_id, word, start=at + 1)
            assert data(await stream.next())["delta"] == word  # each one as it happens


async def test_signs_of_life_in_every_state(redis: Any) -> None:
    async with running(redis.url, keep_alive_s=0.3, silence_s_max=0.2) as world:
        async with ask(world, question()) as stream:
            for _ in range(2):
                await stream.next()
            before = len(stream.raw)
            with contextlib.suppress(TimeoutError):
                await stream.next(1.0)
        quiet = stream.raw[before:]
        assert quiet
        assert quiet == b": keep-alive\n\n" * (len(quiet) // 14)
        assert 2 <= len(quiet) // 14 <= 5
        async with ask(world, question(), idempotency="k2") as stream:
            generation_id = stream.generation_id
            await world.open(generation_id)
            for at in range(8):  # bytes on the wire are life enough
                await world.say(generation_id, "x", start=at + 1)
                await asyncio.sleep(0.1)
            await world.end(generation_id)
            await stream.rest()
            assert stream.raw.count(b": keep-alive") <= 1


def post_bytes(text: str, key: str) -> bytes:
    body = json.dumps(question(text)).encode()
    head = (
        "POST /v1/generations HTTP/1.1\r\nhost: x\r\n"
        f"authorization: Bearer {ANN}\r\nidempotency-key: {key}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def big_answer(world: World, generation_id: str, entries: int, size: int) -> None:
    await world.open(generation_id)
    for at in range(entries):
        await world.say(generation_id, "x" * size, start=at + 1)
    await world.end(generation_id)


async def test_readers_who_do_not_read_are_cut(
    redis: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Ten sockets take nothing of 1.5 MB answers; a normal reader beside them takes it all."""
    async with running(redis.url, write_s_max=0.5, socket_send_bytes=16_384) as world:
        sleepers = [small_socket(world.port) for _ in range(10)]
        loop = asyncio.get_running_loop()
        for number, sleeper in enumerate(sleepers):
            await loop.run_in_executor(None, sleeper.sendall, post_bytes("sleep", f"s{number}"))
        await until(lambda: len(world.machines.submits()) == 10)
        slow = [submit.spec.generation_id for submit in world.machines.submits()]
        async with ask(world, question(), idempotency="normal") as stream:
            work = [big_answer(world, name, 75, 20_000) for name in [*slow, stream.generation_id]]
            writing = asyncio.gather(*work)
            held = 0
            while not writing.done():
                held = max(held, world.parts.hub._buffers.bytes_held)
                await asyncio.sleep(0.01)
            await writing
            events = await stream.rest()
        assert len(text_of(events)) == 1_500_000
        assert names(events)[-1] == "completed"
        cut = world.parts.metrics.cut
        await until(lambda: sum(cut.labels(r)._value.get() for r in ("age", "bytes")) == 10)
        await until(lambda: world.parts.metrics.streams._value.get() == 0)
        assert held <= 11 * (65_536 + 20_200)
        for sleeper in sleepers:
            assert not await loop.run_in_executor(None, ends_with_a_terminal, sleeper)
        assert caplog.records == []  # a cut is ours, and no fault of the server's
        async with reread(world, slow[0]) as again:  # its place is kept
            assert len(text_of(await again.rest())) == 1_500_000


def ends_with_a_terminal(sleeper: socket.socket) -> bool:
    """Reads what is left on a cut connection."""
    sleeper.settimeout(5)
    got = b""
    with sleeper, contextlib.suppress(ConnectionError, TimeoutError):
        while chunk := sleeper.recv(65_536):
            got += chunk
    return b"generation.completed" in got or got.endswith(b"0\r\n\r\n")


async def test_a_reader_that_falls_behind_and_comes_back_loses_nothing(redis: Any) -> None:
    async with (
        running(redis.url, write_s_max=30, socket_send_bytes=16_384) as world,
        asyncio.timeout(30),
    ):
        late = small_socket(world.port)
        late.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(late, post_bytes("late", "late"))
        await until(lambda: len(world.machines.submits()) == 1)
        generation_id = world.machines.submits()[0].spec.generation_id
        await big_answer(world, generation_id, 30, 20_000)
        got = b""
        with late:
            while not got.endswith(b"0\r\n\r\n"):
                got += await loop.sock_recv(late, 65_536)
        assert got.count(b"event: generation.text.delta") == 30
        assert got.count(b"event: generation.completed") == 1
        assert world.parts.hub._buffers.bytes_held == 0


async def test_a_client_that_leaves_stops_nothing(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await stream.next()
    await until(lambda: world.parts.metrics.streams._value.get() == 0)
    await until(lambda: not world.parts.hub._feeds)
    assert all(type(body).__name__ == "Submit" for body in world.machines.bodies())
    await world.whole(generation_id, "still made")
    async with reread(world, generation_id) as again:
        assert text_of(await again.rest()) == "still made"


async def test_waiting_is_shown_to_the_worker(redis: Any) -> None:
    async with running(redis.url, touch_s=0.1) as world:
        for body in (question(), question(stream=False)):
            world.machines.sent.clear()
            task = asyncio.create_task(
                world.client.post(
                    "/v1/generations", json=body, headers=world.headers(idempotency="k")
                )
            )
            await until(lambda: world.machines.submits())
            generation_id = world.machines.submits()[0].spec.generation_id
            await world.open(generation_id)
            await asyncio.sleep(0.3)
            live = await world.reader.live(generation_id)
            assert live is not None
            assert live.reader_seen_at_ms is not None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await until(lambda: not world.parts.hub._feeds)
            await asyncio.sleep(0.15)
            seen = (await world.reader.live(generation_id)).reader_seen_at_ms  # type: ignore[union-attr]
            await asyncio.sleep(0.3)
            later = (await world.reader.live(generation_id)).reader_seen_at_ms  # type: ignore[union-attr]
            assert later == seen


async def test_the_push_connection_dies_and_comes_back(redis: Any) -> None:
    async with running(redis.url, silence_s_max=1.0) as world, contextlib.AsyncExitStack() as stack:
        streams = [
            await stack.enter_async_context(ask(world, question(), idempotency=f"k{number}"))
            for number in range(5)
        ]
        for stream in streams:
            await world.open(stream.generation_id)
            await world.say(stream.generation_id, "a")
        for at, kind in enumerate((b"pubsub", b"normal")):
            redis.raw(b"CLIENT", b"KILL", b"TYPE", kind)
            for stream in streams:
                await world.say(stream.generation_id, "b", start=2 + at)
            await until(lambda: world.parts.hub.connected)
        for stream in streams:
            await world.end(stream.generation_id)
            events = await stream.rest()
            assert text_of(events) == "abb"
            assert names(events)[-1] == "completed"


async def test_a_restart_of_redis_ends_streams_from_the_store(redis: Any) -> None:
    async with (
        running(redis.url, store_ask_s=0.1, silence_s_max=0.5) as world,
        ask(world, question(), idempotency="one") as stream,
        ask(world, question(), idempotency="two") as other,
    ):
        for one in (stream, other):
            await world.open(one.generation_id)
            await world.say(one.generation_id, "shown")
            assert text_of([await one.next() for _ in range(3)]) == "shown"
        await world.end(stream.generation_id)  # for its row
        redis.stop()
        refused = await world.client.post(
            "/v1/generations", json=question(), headers=world.headers(idempotency="three")
        )
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "capacity_exhausted"
        redis.start()
        await until(lambda: world.parts.hub.connected)
        # The other one's worker finds nothing and begins with a whole text.
        await world.open(other.generation_id)
        snapshot = json.dumps({"text": "shown and more"}).encode()
        await world.writer.append(other.generation_id, 1, 2, "snapshot", snapshot)
        await world.end(other.generation_id)
        assert text_of(await other.rest()) == "shown and more"
        assert text_of(await stream.rest()) in ("", "shown")
        assert names(stream.seen)[-1] == "completed"


async def test_a_stream_ends_from_the_store_while_redis_is_away(redis: Any) -> None:
    async with (
        running(redis.url, store_ask_s=0.1, silence_s_max=0.5) as world,
        ask(world, question()) as stream,
    ):
        generation_id = stream.generation_id
        await world.open(generation_id)
        await world.say(generation_id, "shown")
        for _ in range(3):
            await stream.next()
        try:
            redis.stop()
            row = ended_row(generation_id, "shown and more")
            await world.store.put_result(row, RowPhase.FINAL)
            rest = await stream.rest()
            assert names(rest) == ["snapshot", "completed"]
            assert data(rest[0]) == {
                "generation_id": generation_id,
                "sequence": 1,
                "text": "shown and more",
            }
            assert rest[1].id == "2-2000000"
            assert world.parts.metrics.store_ends._value.get() == 1
        finally:
            redis.start()


async def test_a_flushed_stream_ends_from_the_store(redis: Any) -> None:
    async with (
        running(redis.url, store_ask_s=0.1, silence_s_max=0.3) as world,
        ask(world, question()) as stream,
    ):
        generation_id = stream.generation_id
        await world.open(generation_id)
        await world.say(generation_id, "shown")
        for _ in range(3):
            await stream.next()
        redis.raw(b"FLUSHALL")
        await world.store.put_result(ended_row(generation_id, "whole"), RowPhase.FINAL)
        assert text_of(await stream.rest()) == "whole"


async def test_odd_characters_reach_every_kind_of_reader(world: World) -> None:
    texts = ["a\u2028b", "\u2029\x85", "\x0b\x0c", "\x1c", "那个", "é", "👩‍👩‍👧‍👦"]
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.open(generation_id)
        await world.say(generation_id, *texts)
        await world.end(generation_id)
        assert text_of(await stream.rest()) == "".join(texts)
        raw = stream.raw.decode()
    lines = raw.splitlines()
    assert sum(line.startswith("event: ") for line in lines) == len(texts) + 3
    assert all(line == "" or line.split(":")[0] in ("id", "event", "data") for line in lines)
    async with reread(world, generation_id) as again:
        assert text_of(await again.rest()) == "".join(texts)


async def test_a_drain_lets_streams_end_and_cuts_the_rest(redis: Any) -> None:
    async with (
        running(redis.url) as world,
        ask(world, question(), idempotency="one") as short,
        ask(world, question(), idempotency="two") as long,
    ):
        await world.open(long.generation_id)
        await world.say(long.generation_id, "a")
        for _ in range(3):
            await long.next()
        await world.whole(short.generation_id, "done")
        assert names(await short.rest())[-1] == "completed"
        world.parts.hub.end_all("drain")
        with contextlib.suppress(httpx.RemoteProtocolError):
            await long.rest()
        assert names(long.seen) == ["created", "queued", "text.delta"]
        assert not long.raw.endswith(b"0\r\n\r\n")


async def test_a_stream_has_a_longest_life(redis: Any) -> None:
    async with running(redis.url, stream_s_max=0.3) as world:
        got = await raw_exchange(world.port, post_bytes("hi", "k"))
        assert b"generation.created" in got
        assert not got.endswith(b"0\r\n\r\n")


async def test_one_piece_has_a_deadline(redis: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("edge.respond.RUN_MARGIN_S", 0.1)
    async with running(redis.url, queue_wait_ms_max=100, run_ms_max=100) as world:
        response = await world.client.post(
            "/v1/generations", json=question(stream=False), headers=world.headers(idempotency="k")
        )
        assert response.status_code == 504
        assert response.json()["error"]["code"] == "generation_timeout"


async def test_an_answer_too_long_to_collect_comes_from_the_store(redis: Any) -> None:
    async with running(redis.url, result_bytes_max=1_000) as world:
        posted = asyncio.create_task(
            world.client.post(
                "/v1/generations",
                json=question(stream=False),
                headers=world.headers(idempotency="k"),
            )
        )
        await until(lambda: world.machines.submits())
        generation_id = world.machines.submits()[0].spec.generation_id
        await world.whole(generation_id, "x" * 600, "y" * 600)
        assert (await posted).json()["output"][0]["text"] == "x" * 600 + "y" * 600
