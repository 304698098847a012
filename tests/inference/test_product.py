"""The worker between the real folds and the real closer: each end is one of those the design names."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from connectors.store.rows import ResultStatus
from schemas.generated.types import Code, FinishReason, RunKind, Terminal
from tests.inference.machines import Product, text_of
from tests.inference.support import Bench, bench, until, until_shown
from tests.support.redis_server import RedisServer

LONG = {"words": 2_000, "tokens_per_s": 100, "prefill_ms": 5}


@contextlib.asynccontextmanager
async def product(redis: RedisServer) -> AsyncIterator[tuple[Bench, Product]]:
    async with bench(redis.url, played=False, start=False) as b:
        machines = Product(b)
        await b.start()
        try:
            yield b, machines
        finally:
            await machines.close()


async def running(b: Bench, p: Product) -> str:
    generation = await p.ask(LONG)
    await until_shown(lambda: b.entries(generation), lambda entries: len(entries) > 2)
    return generation


async def agree(b: Bench, p: Product, generation: str) -> str:
    """Stream, row and usage tell one story; the text."""
    entries = await b.entries(generation)
    terminals = [e for e in entries if e.terminal]
    assert len(terminals) == 1
    assert entries[-1].terminal
    row = await b.store.result(generation)
    assert row is not None
    assert row.ended
    assert row.text == text_of(entries)
    assert len([used for used in p.used(generation) if not used.void]) == 1
    return row.text


async def test_a_completed_answer(redis: RedisServer) -> None:
    async with product(redis) as (b, p):
        generation = await p.ask({"text": "TCP keeps order.", "prefill_ms": 5})
        end = await p.ended(generation)
        assert (end.terminal, end.finish_reason) == (Terminal.COMPLETED, FinishReason.STOP)
        assert await agree(b, p, generation) == "TCP keeps order."
        assert [e.event for e in await b.entries(generation)][-2:] == ["text.delta", "completed"]
        row = await b.store.result(generation)
        assert row is not None
        assert (row.status, row.output_tokens) == (ResultStatus.COMPLETED, 3)


async def test_a_stopped_answer_keeps_its_text_and_true_usage(redis: RedisServer) -> None:
    async with product(redis) as (b, p):
        generation = await running(b, p)
        p.stop(generation)
        end = await p.ended(generation, 3)
        assert end.terminal is Terminal.CANCELLED
        text = await agree(b, p, generation)
        used = p.used(generation)[0]
        assert used.usage.output_tokens == len(text.split()) > 0
        assert not used.usage.estimated


async def test_a_run_past_its_deadline_is_a_timeout(redis: RedisServer) -> None:
    async with product(redis) as (b, p):
        generation = await p.ask(LONG, run_ms_max=400)
        end = await p.ended(generation, 5)
        assert (end.terminal, end.code) == (Terminal.FAILED, Code.GENERATION_TIMEOUT)
        assert (await agree(b, p, generation)).startswith("word1 ")


async def test_a_failed_engine_is_an_error_with_its_text(redis: RedisServer) -> None:
    async with product(redis) as (b, p):
        generation = await p.ask({"words": 9, "fail_at": 2, "prefill_ms": 5})
        end = await p.ended(generation)
        assert (end.terminal, end.code) == (Terminal.FAILED, Code.MODEL_BACKEND_ERROR)
        assert await agree(b, p, generation) == "word1 word2 "


async def test_a_worker_that_vanishes_is_an_error_after_its_lease(redis: RedisServer) -> None:
    async with product(redis) as (b, p):
        generation = await running(b, p)
        await b.kill()
        b.clock.ahead_s += 11
        end = await p.ended(generation, 5)
        assert (end.terminal, end.code) == (Terminal.FAILED, Code.MODEL_BACKEND_ERROR)
        assert (await agree(b, p, generation)).startswith("word1 ")
        used = p.used(generation)
        assert len(used) == 1
        assert used[0].usage.estimated


async def test_a_worker_that_slept_through_its_lease_writes_nothing_more_and_lives_on(
    redis: RedisServer,
) -> None:
    async with product(redis) as (b, p):
        generation = await running(b, p)
        b.clock.ahead_s += 30
        end = await p.ended(generation, 5)
        assert end.terminal is Terminal.FAILED
        await agree(b, p, generation)
        await until(lambda: any(used.void for used in p.used(generation)))
        await until(lambda: b.worker.missing() == {})
        after = await p.ask({"text": "again", "prefill_ms": 5})
        assert (await p.ended(after)).terminal is Terminal.COMPLETED


async def test_a_log_that_was_silent_for_nine_seconds_costs_nobody_an_answer(
    redis: RedisServer,
) -> None:
    async with product(redis) as (b, p):
        generation = await running(b, p)
        b.log.stalled = True
        b.clock.ahead_s += 9
        await asyncio.sleep(0.3)
        b.log.stalled = False
        b.log.flow()
        before = len(text_of(await b.entries(generation)))
        await until_shown(
            lambda: b.entries(generation), lambda found: len(text_of(found)) > before + 100
        )
        p.stop(generation)
        assert (await p.ended(generation)).terminal is Terminal.CANCELLED
        await agree(b, p, generation)


async def test_a_flushed_redis_costs_nobody_an_answer(redis: RedisServer) -> None:
    async with product(redis) as (b, p):
        generation = await p.ask({"words": 150, "tokens_per_s": 100, "prefill_ms": 5})
        await until_shown(lambda: b.entries(generation), lambda entries: len(entries) > 2)
        redis.raw(b"FLUSHALL")
        end = await p.ended(generation)
        assert end.terminal is Terminal.COMPLETED
        assert len((await agree(b, p, generation)).split()) == 150


async def test_many_answers_end_once_each(redis: RedisServer) -> None:
    async with product(redis) as (b, p):
        script = {"words": 12, "tokens_per_s": 50, "prefill_ms": 5}
        asked = [await p.ask(script) for _ in range(40)]
        for generation in asked:
            assert (await p.ended(generation)).terminal is Terminal.COMPLETED
            assert len((await agree(b, p, generation)).split()) == 12
            kinds = [fact.kind for fact in p.facts(generation)]
            assert kinds.count(RunKind.GRANTED) == kinds.count(RunKind.ENDED) == 1
