"""A generation over HTTP, from the question to its end, in both modes."""

import asyncio

from schemas.generated.types import Code, Lane, OnDisconnect, OnWorkerLoss, Terminal
from tests.edge.client import ask, data, names, question, reread, text_of, until
from tests.edge.world import World
from topics.registry import ACCOUNTS_INBOX


async def test_a_stream_tells_the_whole_life(world: World) -> None:
    async with ask(world, question("hi")) as stream:
        response = stream.response
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store, no-transform"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["x-request-id"].startswith("req_")
        assert response.headers["ratelimit-policy"] == (
            '"messages";q=40;w=10800, "slots";q=2;qu="concurrent-requests"'
        )
        assert response.headers["ratelimit"] == '"messages";r=36;t=600, "slots";r=1'
        assert response.headers["x-ratelimit-remaining-requests"] == "36"
        created, waits = await stream.next(), await stream.next()
        assert names([created, waits]) == ["created", "queued"]
        assert data(created) == {
            "generation_id": stream.generation_id,
            "sequence": 0,
            "status": "queued",
        }
        assert data(waits)["position"] is None
        assert data(waits)["deadline_at"].endswith("Z")
        await world.open(stream.generation_id)
        await world.say(stream.generation_id, "TCP", " is")
        first = await stream.next()
        assert (first.id, first.event) == ("1-1", "generation.text.delta")
        assert data(first) == {
            "generation_id": stream.generation_id,
            "sequence": 1,
            "index": 0,
            "offset": 0,
            "delta": "TCP",
        }
        await world.end(stream.generation_id)
        rest = await stream.rest()
        assert names(rest) == ["text.delta", "completed"]
        assert rest[-1].id == "2-3"
        assert data(rest[-1])["usage"]["output_tokens"] == 5
        assert text_of(stream.seen) == "TCP is"


async def test_what_is_submitted(world: World) -> None:
    body = question("one two", temperature=0, seed=7, stop="end", max_output_tokens=9)
    async with ask(world, body) as stream:
        await stream.next()
        generation_id = stream.generation_id
    topic, key, value = world.machines.sent[0]
    assert (topic, key) == (ACCOUNTS_INBOX, "usr_ann")
    submit = world.machines.submits()[0]
    spec = submit.spec
    assert submit.reply_partition == 3
    assert spec.generation_id == generation_id
    assert spec.input_tokens == 2
    assert (spec.output_tokens_max, spec.seed, spec.temperature) == (9, 7, 0.0)
    assert (spec.lane, spec.on_disconnect) == (Lane.FREE, OnDisconnect.CANCEL)
    assert spec.on_worker_loss is OnWorkerLoss.FAIL
    assert spec.runs_key.startswith("run_")
    assert "one two" not in str(value)
    kept = await world.reader.get_payload(generation_id)
    assert kept == b'{"messages":[{"role":"user","content":"one two"}],"stop":["end"]}'
    row = await world.store.payload(generation_id)
    assert row is not None
    assert (row.user_id, row.runs_key, row.body) == ("usr_ann", spec.runs_key, kept)


async def test_one_piece_is_made_of_the_same_events(world: World) -> None:
    posted = asyncio.create_task(
        world.client.post(
            "/v1/generations", json=question(stream=False), headers=world.headers(idempotency="k")
        )
    )
    generation_id = await _submitted(world)
    await world.whole(generation_id, "😀", " one")
    response = await posted
    assert response.status_code == 200
    assert response.headers["x-generation-id"] == generation_id
    assert response.headers["cache-control"] == "no-store"
    assert response.json() == {
        "id": generation_id,
        "status": "completed",
        "model": "scripted",
        "output": [{"type": "text", "text": "😀 one"}],
        "finish_reason": "stop",
        "usage": {"input_tokens": 3, "cached_input_tokens": 0, "output_tokens": 5},
    }


async def test_a_failure_in_one_piece_is_a_typed_error(world: World) -> None:
    for number, (code, expected) in enumerate(
        {
            Code.MODEL_BACKEND_ERROR: 502,
            Code.GENERATION_TIMEOUT: 504,
            Code.CAPACITY_EXHAUSTED: 503,
            Code.INTERNAL: 502,
        }.items()
    ):
        posted = asyncio.create_task(
            world.client.post(
                "/v1/generations",
                json=question(stream=False),
                headers=world.headers(idempotency=f"k{number}"),
            )
        )
        generation_id = await _submitted(world, number + 1)
        await world.open(generation_id)
        await world.say(generation_id, "part")
        await world.end(generation_id, Terminal.FAILED, code=code)
        response = await posted
        assert response.status_code == expected
        error = response.json()["error"]
        assert error["details"] == {
            "generation_id": generation_id,
            "status": "failed",
            "partial": True,
        }
        assert response.headers["x-generation-id"] == generation_id


async def test_an_error_in_a_stream_is_an_event(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.open(generation_id)
        await world.say(generation_id, "part")
        await world.end(generation_id, Terminal.FAILED, code=Code.MODEL_BACKEND_ERROR)
        last = (await stream.rest())[-1]
    assert last.event == "generation.error"
    assert data(last)["code"] == "model_backend_error"
    assert data(last)["action"] == "manual_regenerate"
    assert data(last)["partial"] is True


async def test_a_watcher_on_the_side_sees_the_same(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.open(generation_id)
        await world.say(generation_id, "a", "b")
        async with reread(world, generation_id) as second:
            await world.say(generation_id, "c", start=3)
            await world.end(generation_id)
            first, other = await stream.rest(), await second.rest()
    assert names(other) == ["created", *["text.delta"] * 3, "completed"]
    assert [event.id for event in first[2:]] == [event.id for event in other[1:]]
    assert text_of(first) == text_of(other) == "abc"


async def _submitted(world: World, count: int = 1) -> str:
    await until(lambda: len(world.machines.submits()) >= count)
    return world.machines.submits()[-1].spec.generation_id
