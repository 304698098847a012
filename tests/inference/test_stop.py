"""Stop, fence and a stream that is not there: each by its own way, each with true usage."""

import json

import pytest

from inference import metrics
from inference.engines.scripted import ScriptedEngine
from schemas.generated.types import FinishReason, StopReason
from tests.inference.support import Bench, bench, until, until_shown
from tests.support.redis_server import RedisServer

LONG = {"words": 2_000, "tokens_per_s": 100, "prefill_ms": 5}


async def running(b: Bench) -> str:
    """A long answer of which some text is shown."""
    generation = await b.ask(LONG, output_tokens_max=5_000)
    await until_shown(lambda: b.shown(generation), lambda text: len(text) > 20)
    return generation


def residual_tokens() -> float:
    found = metrics.RESIDUAL_TOKENS.collect()
    return next(s.value for m in found for s in m.samples if s.name.endswith("_sum"))


async def whole(b: Bench, generation: str) -> None:
    """What was made, shown, stored and told is one text."""
    finished = await b.finished(generation)
    row = await b.store.result(generation)
    assert row is not None
    shown = await b.shown(generation)
    assert row.text == shown
    assert len(shown.split()) == finished.usage.output_tokens == row.output_tokens
    assert finished.code_points == len(shown)


async def test_a_stop_order_ends_within_a_token(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        before = residual_tokens()
        b.machines.stop(generation)
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.STOPPED
        assert residual_tokens() - before <= 1
        await whole(b, generation)


async def test_a_stop_in_the_stream_ends_at_the_next_append(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        await b.streams.stop(generation, 5, StopReason.USER)
        finished = await b.finished(generation, 2)
        assert finished.reason is FinishReason.STOPPED
        await whole(b, generation)


async def test_a_stop_in_the_stream_is_seen_in_prefill(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"words": 5, "prefill_ms": 60_000})
        await until(lambda: b.worker.missing() == {} and b.engine.load().running == 1)
        await b.streams.stop(generation, 5, StopReason.USER)
        finished = await b.finished(generation, 2)
        assert finished.reason is FinishReason.STOPPED
        assert finished.usage.output_tokens == 0
        assert await b.entries(generation) == []


async def test_a_stop_before_the_engine_began_computes_nothing(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.store.away = True
        generation = await b.ask("unused", payload=False)
        await until(lambda: b.machines.owner(generation) is not None)
        b.machines.stop(generation)
        b.store.away = False
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.STOPPED
        assert (finished.usage.input_tokens, finished.usage.output_tokens) == (0, 0)


async def test_a_fence_in_the_stream_drops_the_text_and_tells_the_usage(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        await b.streams.fence(generation, 2)
        frozen = await b.shown(generation)
        finished = await b.finished(generation, 2)
        assert finished.reason is FinishReason.STOPPED
        assert finished.usage.output_tokens > 0
        assert await b.shown(generation) == frozen
        assert await b.store.result(generation) is None


async def test_the_deadline_is_seen_without_any_order(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.machines.run_ms = 300
        generation = await b.ask(LONG)
        finished = await b.finished(generation, 5)
        assert finished.reason is FinishReason.STOPPED
        assert finished.usage.output_tokens > 10
        assert (await b.shown(generation)).startswith("word1 ")


async def test_a_hanging_engine_is_stopped_like_any_other(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"words": 9, "hang_at": 2, "prefill_ms": 5})
        await until_shown(lambda: b.shown(generation), lambda text: len(text) > 6)
        b.machines.stop(generation)
        assert (await b.finished(generation)).reason is FinishReason.STOPPED
        await whole(b, generation)


async def test_the_first_append_waits_for_the_closer(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"text": "patience", "prefill_ms": 5}, opened=False)
        await until(lambda: b.machines.owner(generation) is not None)
        await until(lambda: len(b.machines.beats) > 3)
        await b.open(generation)
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.STOP
        assert await b.shown(generation) == "patience"
        assert [entry.event for entry in await b.entries(generation)] == ["text.delta"]


async def test_a_stream_that_never_opens_is_asked_about_and_the_answer_still_ends(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"words": 400, "tokens_per_s": 100, "prefill_ms": 5}, opened=False)
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.STOP
        assert 2 <= len(b.machines.probes) <= 6
        row = await b.store.result(generation)
        assert row is not None
        assert len(row.text.split()) == 400


async def test_a_lost_stream_is_asked_about_and_begins_again_with_a_snapshot(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        redis.raw(b"FLUSHALL")
        await until(lambda: len(b.machines.probes) == 1, 2)
        await b.open(generation, number=9)
        entries = await until_shown(lambda: b.entries(generation), lambda found: len(found) > 1)
        assert entries[0].event == "snapshot"
        assert json.loads(entries[0].data)["text"].startswith("word1 ")
        b.machines.stop(generation)
        await whole(b, generation)


async def test_a_probe_of_an_ended_run_drops_the_text(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        b.machines.end(generation)
        redis.raw(b"FLUSHALL")
        finished = await b.finished(generation, 3)
        assert finished.reason is FinishReason.STOPPED
        assert await b.store.result(generation) is None


async def test_only_the_stream_is_gone(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        redis.raw(b"DEL", b"gen:{%s}" % generation.encode())
        entries = await until_shown(lambda: b.entries(generation), lambda found: len(found) > 1)
        assert [entry.event for entry in entries[:2]] == ["text.delta", "snapshot"]
        b.machines.stop(generation)
        finished = await b.finished(generation)
        row = await b.store.result(generation)
        assert row is not None
        assert len(row.text.split()) == finished.usage.output_tokens


async def test_redis_goes_away_and_the_text_waits(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        redis.stop()
        await until(lambda: len(b.machines.beats) > 5)
        redis.start()
        await b.open(generation, number=9)
        await until_shown(lambda: b.shown(generation), lambda text: len(text) > 200)
        b.machines.stop(generation)
        await whole(b, generation)


async def test_a_full_redis_keeps_the_text_and_hears_the_stop(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        redis.raw(b"CONFIG", b"SET", b"maxmemory", b"1")
        try:
            before = await b.shown(generation)
            await until(lambda: len(b.machines.beats) > 3)
            assert len(await b.shown(generation)) <= len(before) + 40
            await b.streams.stop(generation, 9, StopReason.USER)
            finished = await b.finished(generation, 5)
        finally:
            redis.raw(b"CONFIG", b"SET", b"maxmemory", b"0")
        assert finished.reason is FinishReason.STOPPED
        row = await b.store.result(generation)
        assert row is not None
        assert len(row.text.split()) == finished.usage.output_tokens


@pytest.mark.parametrize("orders", [1, 3])
async def test_repeated_orders_change_nothing(redis: RedisServer, orders: int) -> None:
    async with bench(redis.url, engine=ScriptedEngine(slots=4)) as b:
        generation = await running(b)
        for _ in range(orders):
            b.machines.stop(generation)
        await whole(b, generation)
        assert len(b.machines.finished) == 1
