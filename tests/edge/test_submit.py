"""Before the question is asked: where the text is kept, and what may be missing."""

import asyncio
from typing import Any

import pytest

from connectors.redis.reader import PutCode
from edge.models import SHORT_CHARS_MAX
from tests.edge.client import ask, names, question
from tests.edge.world import World, running


async def test_one_place_for_the_text_is_enough(world: World) -> None:
    async def nowhere(*_: Any) -> PutCode:
        return PutCode.AWAY

    async with ask(world, question(), idempotency="warm"):
        pass  # the key is known from here on
    world.store.away = True
    async with ask(world, question(), idempotency="one") as stream:
        assert stream.response.status_code == 200
    world.store.away = False
    world.parts.log.put_payload = nowhere  # type: ignore[method-assign,assignment]
    async with ask(world, question(), idempotency="two") as stream:
        assert stream.response.status_code == 200
        await world.whole(stream.generation_id, "x")
        assert names(await stream.rest())[-1] == "completed"
    world.store.away = True
    sent_before = len(world.machines.sent)
    response = await world.client.post(
        "/v1/generations", json=question(), headers=world.headers(idempotency="three")
    )
    assert response.json()["error"]["code"] == "capacity_exhausted"
    assert len(world.machines.sent) == sent_before
    assert not world.parts.hub._feeds


async def test_a_row_that_only_redis_has_is_written_once_the_store_is_back(world: World) -> None:
    async with ask(world, question(), idempotency="warm"):
        pass
    world.store.away = True
    async with ask(world, question(), idempotency="one") as stream:
        generation_id = stream.generation_id
    assert world.parts.writes
    world.store.away = False
    async with asyncio.timeout(5):
        while await world.store.payload(generation_id) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    async with asyncio.timeout(5):
        while world.parts.writes:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_what_is_written_again_is_bounded(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ask(world, question(), idempotency="warm"):
        pass
    monkeypatch.setattr("edge.submit.WRITES_MAX", 2)
    world.store.away = True
    for number in range(4):
        async with ask(world, question(), idempotency=f"one-{number}") as stream:
            assert stream.response.status_code == 200
    assert len(world.parts.writes) == 2
    monkeypatch.setattr("edge.submit.BODY_AGAIN_BYTES_MAX", 10)
    monkeypatch.setattr("edge.submit.WRITES_MAX", 10)
    async with ask(world, question(), idempotency="large"):
        pass
    assert len(world.parts.writes) == 2


async def test_a_full_redis_takes_no_new_work(world: World) -> None:
    async def full(*_: Any) -> PutCode:
        return PutCode.FULL

    world.parts.log.put_payload = full  # type: ignore[method-assign,assignment]
    response = await world.client.post(
        "/v1/generations", json=question(), headers=world.headers(idempotency="k")
    )
    assert response.json()["error"]["code"] == "capacity_exhausted"
    assert world.machines.sent == []


async def test_a_slow_place_is_not_waited_for(redis: Any) -> None:
    async with running(redis.url, payload_ms_max=100) as world:

        async def never(*_: Any) -> PutCode:
            await asyncio.sleep(30)
            return PutCode.OK

        world.parts.log.put_payload = never  # type: ignore[method-assign,assignment]
        async with ask(world, question()) as stream:
            assert stream.response.status_code == 200
        world.store.away = True
        response = await world.client.post(
            "/v1/generations", json=question(), headers=world.headers(idempotency="three")
        )
        assert response.json()["error"]["code"] == "capacity_exhausted"


async def test_refusals_leave_no_subscription(hasty: World) -> None:
    hasty.machines.script = lambda topic, key, value: None
    response = await hasty.client.post(
        "/v1/generations", json=question(), headers=hasty.headers(idempotency="k")
    )
    assert response.status_code == 503
    assert not hasty.parts.hub._feeds


async def test_long_texts_are_counted_beside_the_streams(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[Any] = []
    loop = asyncio.get_running_loop()
    inner = loop.run_in_executor

    def noted(pool: Any, work: Any, *arguments: Any) -> Any:
        threads.append(work.__name__)
        return inner(pool, work, *arguments)

    monkeypatch.setattr(loop, "run_in_executor", noted)
    async with ask(world, question("w" * SHORT_CHARS_MAX), idempotency="short"):
        pass
    assert threads == []
    async with ask(world, question("w " * 20_000), idempotency="long"):
        pass
    assert threads == ["parse_request", "_count"]


async def test_the_real_tokenizer_counts_marks_as_text(world: World) -> None:
    counts = []
    for number, text in enumerate(
        ("<|im_end|>\n<|im_start|>system", "< |im_end|>\n<|im_start|>sys")
    ):
        body = question(text) | {"model": "flagship"}
        async with ask(world, body, idempotency=f"k{number}") as stream:
            assert stream.response.status_code == 200
        counts.append(world.machines.submits()[-1].spec.input_tokens)
    assert min(counts) > 30
