"""A key used again: the same answer, the same stream, or a refusal that says why."""

import asyncio
from typing import Any

import msgspec
import pytest

from edge.settings import EdgeSettings
from edge.wiring import real_mint
from schemas.generated.types import Code, Phase, Refused, Repeated, Submit, Terminal
from tests.edge.client import ask, data, names, question, text_of
from tests.edge.machines import default_answer, queued, unknown
from tests.edge.machines import status as status_of
from tests.edge.world import World
from topics.registry import RUNS_INBOX
from topics.topic import Topic


def remembers(world: World, **more: Any) -> None:
    """From now on every Submit is answered as the repeat of the first."""
    first = world.machines.submits()[0].spec.generation_id
    fields: dict[str, Any] = {"generation_id": first, "same": True, "running": True}
    repeated = Repeated(**(fields | more))

    def script(topic: Any, key: str, value: Any) -> Any:
        return repeated if isinstance(value.body, Submit) else default_answer(value)

    world.machines.script = script


async def test_while_it_runs(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.open(generation_id)
        await world.say(generation_id, "a", "b")
        remembers(world)
        again = await world.client.post(
            "/v1/generations", json=question(), headers=world.headers(idempotency="k-1")
        )
        assert again.status_code == 409
        error = again.json()["error"]
        assert (error["code"], error["retryable"]) == ("generation_in_progress", False)
        assert error["details"] == {"generation_id": generation_id, "status": "running"}
        assert again.headers["x-should-retry"] == "false"
        async with ask(world, question(), prefer="respond-async, Reattach") as other:
            assert other.response.headers["preference-applied"] == "reattach"
            assert "idempotent-replayed" not in other.response.headers
            assert other.generation_id == generation_id
            await world.say(generation_id, "c", start=3)
            await world.end(generation_id)
            assert text_of(await other.rest()) == "abc"
        assert text_of(await stream.rest()) == "abc"


async def test_the_status_of_a_running_repeat_is_asked_for(world: World) -> None:
    async with ask(world, question()) as stream:
        await stream.next()
        remembers(world)
        inner = world.machines.script

        def script(topic: Any, key: str, value: Any) -> Any:
            if isinstance(value.body, Submit):
                return inner(topic, key, value)
            return status_of(value.body.generation_id, Phase.QUEUED)

        world.machines.script = script
        again = await world.client.post(
            "/v1/generations", json=question(), headers=world.headers(idempotency="k-1")
        )
        assert again.json()["error"]["details"]["status"] == "queued"
        # The question went where the first request's run lives.
        keys = [key for topic, key, _ in world.machines.sent if topic is RUNS_INBOX]
        assert keys == [world.machines.submits()[0].spec.runs_key]


async def test_when_it_has_ended(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.whole(generation_id, "all", " of it")
        await stream.rest()
    remembers(world, running=False, terminal=Terminal.COMPLETED)
    async with ask(world, question()) as again:
        assert again.response.headers["idempotent-replayed"] == "true"
        events = await again.rest()
        assert text_of(events) == "all of it"
        assert names(events)[-1] == "completed"
    whole = await world.client.post(
        "/v1/generations", json=question(stream=False), headers=world.headers(idempotency="k-1")
    )
    assert whole.status_code == 200
    assert whole.headers["idempotent-replayed"] == "true"
    assert whole.json()["id"] == generation_id
    assert whole.json()["output"] == [{"type": "text", "text": "all of it"}]


async def test_when_only_the_store_has_it(world: World, redis: Any) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.whole(generation_id, "kept")
        await stream.rest()
    redis.raw(b"FLUSHALL")
    remembers(world, running=False, terminal=Terminal.COMPLETED)
    async with ask(world, question()) as again:
        events = await again.rest()
        assert names(events) == ["snapshot", "completed"]
        assert data(events[0]) == {"generation_id": generation_id, "sequence": 0, "text": "kept"}
        assert events[1].id == "2-2"
        assert again.response.headers["cache-control"] == "no-store, no-transform"
    whole = await world.client.post(
        "/v1/generations", json=question(stream=False), headers=world.headers(idempotency="k-1")
    )
    assert whole.json()["status"] == "completed"
    assert whole.json()["usage"]["output_tokens"] == 5


async def test_how_other_ends_are_repeated(world: World, redis: Any) -> None:
    ends = {
        Terminal.CANCELLED: (200, None),
        Terminal.FAILED: (502, Code.MODEL_BACKEND_ERROR),
    }
    for number, (terminal, (expected, code)) in enumerate(ends.items()):
        world.machines.script = lambda topic, key, value: default_answer(value)
        world.machines.sent.clear()
        async with ask(world, question(), idempotency=f"k{number}") as stream:
            generation_id = stream.generation_id
            await world.open(generation_id)
            await world.say(generation_id, "part")
            await world.end(generation_id, terminal, code=code)
            await stream.rest()
        remembers(world, running=False, terminal=terminal)
        for _ in range(2):  # from the log, then from the store
            again = await world.client.post(
                "/v1/generations",
                json=question(stream=False),
                headers=world.headers(idempotency=f"k{number}"),
            )
            assert again.status_code == expected
            assert again.headers["idempotent-replayed"] == "true"
            if terminal is Terminal.CANCELLED:
                assert again.json()["status"] == "cancelled"
                assert again.json()["output"] == [{"type": "text", "text": "part"}]
            else:
                assert again.json()["error"]["details"]["partial"] is True
            redis.raw(b"FLUSHALL")


async def test_when_the_text_has_expired(world: World) -> None:
    async with ask(world, question()) as stream:
        await stream.next()
    remembers(world, running=False, terminal=Terminal.COMPLETED)
    inner = world.machines.script

    def script(topic: Any, key: str, value: Any) -> Any:
        if isinstance(value.body, Submit):
            return inner(topic, key, value)
        return status_of(value.body.generation_id, Phase.CLOSED, terminal=Terminal.COMPLETED)

    world.machines.script = script
    again = await world.client.post(
        "/v1/generations", json=question(), headers=world.headers(idempotency="k-1")
    )
    assert again.status_code == 410
    assert again.json()["error"]["code"] == "result_unavailable"


async def test_another_body_under_the_key(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
    for answer in (
        Repeated(generation_id=generation_id, same=False, running=True),
        Refused(code=Code.IDEMPOTENCY_CONFLICT, retryable=False),
    ):
        world.machines.always(answer)
        again = await world.client.post(
            "/v1/generations", json=question("else"), headers=world.headers(idempotency="k-1")
        )
        assert again.status_code == 409
        assert again.json()["error"]["code"] == "idempotency_conflict"
        assert again.headers["x-should-retry"] == "false"


async def test_no_decision_in_time(hasty: World) -> None:
    hasty.machines.script = lambda topic, key, value: None
    started_s = hasty.parts.mint.now_s()
    response = await hasty.client.post(
        "/v1/generations", json=question(), headers=hasty.headers(idempotency="k")
    )
    assert 0.45 < hasty.parts.mint.now_s() - started_s < 5
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "quota_service_unavailable"
    assert response.headers["retry-after"] == "2"
    first, second = hasty.machines.sent  # sent once more, to the byte
    assert msgspec.json.encode(first[2]) == msgspec.json.encode(second[2])
    assert first[:2] == second[:2]
    submit = hasty.machines.submits()[0]
    hasty.machines.reply(submit.request_id, queued(submit))
    await asyncio.sleep(0.05)
    assert hasty.parts.metrics.late_replies._value.get() == 1


async def test_an_answer_to_the_second_sending_is_enough(world: World) -> None:
    asked = []

    def script(topic: Any, key: str, value: Any) -> Any:
        asked.append(value)
        return default_answer(value) if len(asked) == 2 else None

    world.machines.script = script
    async with ask(world, question()) as stream:
        assert stream.response.status_code == 200
    assert len(asked) == 2


async def test_more_waiting_than_the_table_takes(world: World) -> None:
    assert EdgeSettings().waiting_max == 10_000
    world.parts.replies._waiting_max = 0
    response = await world.client.post(
        "/v1/generations", json=question(), headers=world.headers(idempotency="k")
    )
    assert response.json()["error"]["code"] == "capacity_exhausted"


@pytest.mark.parametrize(
    ("still_running", "status", "code"),
    [(True, 409, "generation_in_progress"), (False, 410, "result_unavailable")],
)
async def test_a_used_key_is_never_not_found(
    world: World, still_running: bool, status: int, code: str
) -> None:
    """accounts knows the key; runs does not yet, refused it for coming late, or forgot it."""
    generation_id = real_mint().id("gen")

    def script(topic: Topic, key: str, value: Any) -> Any:
        if isinstance(value.body, Submit):
            return Repeated(generation_id=generation_id, same=True, running=still_running)
        return unknown(generation_id)

    world.machines.script = script
    headers = world.headers(idempotency="k-1") | {"prefer": "reattach"}
    response = await world.client.post("/v1/generations", json=question(), headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.headers["x-generation-id"] == generation_id
