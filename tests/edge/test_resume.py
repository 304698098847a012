"""Reading again: after any id, valid or not, while it runs, when it has ended, when it is gone."""

from typing import Any

import pytest

from schemas.generated.types import Phase, Terminal
from tests.edge.client import ANN, Stream, ask, data, names, question, raw_exchange, reread, text_of
from tests.edge.machines import status, unknown
from tests.edge.world import World, running


async def make(world: World, *texts: str, end: bool = False) -> str:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await stream.next()
    await world.open(generation_id)
    await world.say(generation_id, *texts)
    if end:
        await world.end(generation_id)
    return generation_id


async def test_strictly_after_a_valid_id(world: World) -> None:
    generation_id = await make(world, "😀😀 one", " two", " three")
    for last, expected in (("1-1", " two three"), ("1-2", " three"), ("1-3", "")):
        async with reread(world, generation_id, last) as stream:
            assert stream.response.status_code == 200
            if last == "1-3":
                await world.end(generation_id)
            events = [await stream.next() for _ in range(2 if last == "1-1" else 1)]
            assert names(events)[0] in ("text.delta", "completed")
            shown = "".join(data(event).get("delta", "") for event in events)
            assert shown == expected
    async with reread(world, generation_id, "1-1") as stream:
        events = await stream.rest()
        assert [event.id for event in events] == ["1-2", "1-3", "2-4"]
        assert data(events[0])["offset"] == 6


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize(
    "last", ["0-0", "9-999", "1-4", "2-1", "abc", "", "1-1, 1-1", "x" * 10_240, "-1", "1-0"]
)
async def test_any_other_id_gives_the_whole_stream_and_says_so(
    world: World, last: str, ended: bool
) -> None:
    generation_id = await make(world, "a", "b", end=ended)
    async with reread(world, generation_id, last) as stream:
        assert stream.response.status_code == 200
        for _ in range(0 if ended else 4):
            await stream.next()
        if not ended:
            await world.end(generation_id)
        await stream.rest()
    events = stream.seen
    assert names(events) == ["created", "snapshot", "text.delta", "text.delta", "completed"]
    assert data(events[1]) == {"generation_id": generation_id, "sequence": 0, "text": ""}
    assert text_of(events) == "ab"


async def test_an_id_sent_twice(world: World) -> None:
    generation_id = await make(world, "a", end=True)
    request = (
        f"GET /v1/generations/{generation_id}/stream HTTP/1.1\r\nhost: x\r\n"
        f"authorization: Bearer {ANN}\r\nlast-event-id: 1-1\r\nlast-event-id: 1-1\r\n"
        "connection: close\r\n\r\n"
    )
    got = await raw_exchange(world.port, request.encode())
    assert b"generation.snapshot" in got
    assert b"generation.completed" in got


async def test_the_terminals_id_ends_at_once(world: World, redis: Any) -> None:
    generation_id = await make(world, "a", end=True)
    for _ in range(2):  # in the log, then in the store
        async with reread(world, generation_id, "2-2") as stream:
            assert stream.response.status_code == 200
            assert stream.response.headers["content-type"] == "text/event-stream"
            assert await stream.rest() == []
            assert stream.raw == b": ended\n\n"
        redis.raw(b"FLUSHALL")


async def test_after_redis_forgot(world: World, redis: Any) -> None:
    generation_id = await make(world, "a", "b", end=True)
    redis.raw(b"FLUSHALL")
    for last in (None, "1-1", "9-9", "abc"):
        async with reread(world, generation_id, last) as stream:
            events = await stream.rest()
            assert names(events) == ["snapshot", "completed"]
            assert text_of(events) == "ab"
            assert "id: " not in stream.raw.decode().split("event: generation.completed")[0][:-9]


async def test_when_only_the_stream_is_gone(world: World, redis: Any) -> None:
    generation_id = await make(world, "a", end=True)
    redis.raw(b"DEL", f"gen:{{{generation_id}}}".encode())
    async with reread(world, generation_id, "1-1") as stream:
        assert names(await stream.rest()) == ["snapshot", "completed"]


async def test_after_a_takeover(world: World) -> None:
    generation_id = await make(world, "a", "b")
    await world.say(generation_id, "c", start=3, epoch=2)
    for last, expected in (("1-2", ["2-3", "3-4"]), ("2-3", ["3-4"])):
        async with reread(world, generation_id, last) as stream:
            if last == "1-2":
                await stream.next()
                await world.end(generation_id, epoch=2)
            await stream.rest()
            assert [event.id for event in stream.seen] == expected


async def test_before_the_closer_has_opened_the_stream(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        async with reread(world, generation_id) as other:
            assert data(await other.next())["status"] == "running"
            await world.whole(generation_id, "late")
            assert text_of(await other.rest()) == "late"
        assert text_of(await stream.rest()) == "late"


async def test_a_queued_one_says_until_when(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.open(generation_id)
        async with reread(world, generation_id) as other:
            first = [await other.next(), await other.next()]
            assert names(first) == ["created", "queued"]
            assert data(first[0])["status"] == "queued"


async def test_when_the_text_has_expired(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
    world.machines.script = lambda topic, key, value: status(
        generation_id, Phase.CLOSED, terminal=Terminal.COMPLETED
    )
    await expect_error(world, generation_id, 410, "result_unavailable")


async def test_when_runs_knows_nothing_or_says_nothing(hasty: World) -> None:
    async with ask(hasty, question()) as stream:
        generation_id = stream.generation_id
    hasty.machines.script = lambda topic, key, value: unknown(generation_id)
    await expect_error(hasty, generation_id, 404, "not_found")
    hasty.machines.script = lambda topic, key, value: None
    await expect_error(hasty, generation_id, 503, "history_unavailable")


async def test_when_the_store_is_away(world: World, redis: Any) -> None:
    generation_id = await make(world, "a", end=True)
    world.store.away = True
    async with reread(world, generation_id) as stream:  # Redis knows the owner as well
        assert text_of(await stream.rest()) == "a"
    redis.raw(b"FLUSHALL")
    await expect_error(world, generation_id, 503, "history_unavailable")


async def expect_error(world: World, generation_id: str, status_code: int, code: str) -> None:
    async with reread(world, generation_id) as stream:
        assert stream.response.status_code == status_code
        body = await stream.response.aread()
        assert f'"code":"{code}"' in body.decode()


async def test_readers_in_two_units_agree(world: World) -> None:
    """A client that counts code points and drops what it has, over two reconnects."""
    generation_id = await make(world, "😀😀 one")
    shown = ""
    async with reread(world, generation_id) as stream:
        shown = await take_text(stream, shown, 1)
    await world.say(generation_id, " two", start=2)
    async with reread(world, generation_id) as stream:
        shown = await take_text(stream, shown, 2)
    await world.say(generation_id, " three", start=3)
    await world.end(generation_id)
    async with reread(world, generation_id, "1-2") as stream:
        shown = await take_text(stream, shown, 1)
    assert shown == "😀😀 one two three"


async def take_text(stream: Stream, shown: str, deltas: int) -> str:
    while deltas:
        event = await stream.next()
        if event.event == "generation.text.delta":
            body = data(event)
            shown = shown[: body["offset"]] + body["delta"]
            deltas -= 1
    return shown


async def test_an_ended_one_that_redis_takes_for_running_ends_from_the_store(redis: Any) -> None:
    """After a loss a repeated `Open` makes the control hash anew, also of a generation that ended."""
    async with running(redis.url, silence_s_max=0.3) as world:
        async with ask(world, question()) as stream:
            generation_id = stream.generation_id
            await world.whole(generation_id, "all")
            await stream.rest()
        redis.raw(b"FLUSHALL")
        await world.open(generation_id)
        async with reread(world, generation_id) as stream:
            events = await stream.rest()
        assert names(events)[-2:] == ["snapshot", "completed"]
        assert text_of(events) == "all"
