"""The worker's lease, its partitions and its end."""

import asyncio

from inference.engines.scripted import ScriptedEngine
from schemas.generated.types import FinishReason, Heartbeat, Lane, WorkersInbox
from tests.inference.support import QUICK, SCRIPTED_SMALL, Bench, bench, until, until_shown
from tests.support.redis_server import RedisServer
from topics import wire
from topics.registry import CONTROL_WORKERS, LANE_TOPICS, RUNS_INBOX, WORKERS_INBOX

LONG = {"words": 2_000, "tokens_per_s": 100, "prefill_ms": 5}


async def running(b: Bench) -> str:
    generation = await b.ask(LONG, output_tokens_max=5_000)
    await until_shown(lambda: b.shown(generation), lambda text: len(text) > 20)
    return generation


async def test_start_hears_orders_before_the_first_heartbeat_and_beats_before_it_reads(
    redis: RedisServer,
) -> None:
    async with bench(redis.url, start=False) as b:
        waiting = await b.ask({"text": "early", "prefill_ms": 5})
        b.log.stalled = True
        run = asyncio.create_task(b.worker.run())
        await until(lambda: "lanes" in b.worker.missing() and "engine" not in b.worker.missing())
        assert b.worker.missing()["lease"]
        assert b.log.committed == {}
        b.log.stalled = False
        b.log.flow()
        await b.finished(waiting)
        topics = [topic for topic in (WORKERS_INBOX, RUNS_INBOX) for _ in b.log.records(topic)[:1]]
        assert topics == [WORKERS_INBOX, RUNS_INBOX]
        first = wire.decode(WorkersInbox, b.log.records(WORKERS_INBOX)[0].value).body
        assert isinstance(first, Heartbeat)
        assert first.beat == 1
        b.worker.stop()
        assert await run is None


async def test_a_short_silence_suspends_and_goes_on_once_runs_says_current(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        b.log.stalled = True
        b.clock.ahead_s += 8.5
        await asyncio.sleep(0.3)
        frozen = await b.shown(generation)
        assert b.worker.missing()["lease"]
        await asyncio.sleep(0.3)
        assert await b.shown(generation) == frozen
        assert b.machines.probes == [], "a silent log is not asked"
        b.log.stalled = False
        b.log.flow()
        shown = await until_shown(
            lambda: b.shown(generation), lambda text: len(text) > len(frozen) + 100
        )
        assert shown.startswith(frozen)
        assert len(b.machines.probes) == 1
        b.machines.stop(generation)
        assert (await b.finished(generation)).reason is FinishReason.STOPPED
        assert b.worker.missing() == {}


async def test_a_long_silence_aborts_keeps_the_text_and_tells_a_dead_backend(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        b.log.stalled = True
        b.clock.ahead_s += 10.5
        await until(lambda: b.engine.load().running == 0, 2)
        frozen = await b.shown(generation)
        await asyncio.sleep(0.2)
        assert await b.shown(generation) == frozen
        b.log.stalled = False
        b.log.flow()
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.BACKEND_DEAD
        shown = await b.shown(generation)
        assert shown.startswith(frozen)
        assert len(shown.split()) == finished.usage.output_tokens
        row = await b.store.result(generation)
        assert row is not None
        assert row.text == shown


async def test_a_long_silence_of_a_lost_epoch_drops_it(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        b.log.stalled = True
        b.clock.ahead_s += 30
        await until(lambda: b.engine.load().running == 0, 2)
        b.machines.end(generation)
        b.log.stalled = False
        b.log.flow()
        finished = await b.finished(generation)
        assert finished.usage.output_tokens > 0
        assert await b.store.result(generation) is None


async def test_a_process_that_was_stopped_notices_before_it_writes(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        b.machines.end(generation)
        appended = len(await b.entries(generation))
        b.clock.ahead_s += 30  # the log answers at once afterwards, as after SIGCONT
        await b.finished(generation)
        assert len(await b.entries(generation)) <= appended + 1


async def test_after_a_lapse_the_worker_lives_on_under_a_new_name(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        old = b.machines.owner(generation)
        b.clock.ahead_s += 30
        await b.finished(generation)
        await until(lambda: b.worker.missing() == {})
        after = await b.ask({"text": "again", "prefill_ms": 5})
        finished = await b.finished(after)
        assert finished.reason is FinishReason.STOP
        assert finished.incarnation != old
        assert finished.incarnation.startswith("worker-0.")
        b.clock.ahead_s += 6
        await until(lambda: old in b.machines.left)
        assert await b.stop() is None
        assert b.machines.left == [old, finished.incarnation]


async def test_claims_on_their_way_are_made_again_by_the_new_life(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.machines.silent_claims = 1
        generation = await b.ask({"text": "again", "prefill_ms": 5})
        await until(lambda: len(b.machines.claims) == 1)
        b.clock.ahead_s += 30
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.STOP
        assert b.machines.claims[0].incarnation != finished.incarnation


async def test_a_grant_while_the_lease_is_in_doubt_begins_once_runs_says_current(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        b.machines.silent_claims = 1
        generation = await b.ask({"text": "later", "prefill_ms": 600})
        await until(lambda: len(b.machines.claims) == 1)
        b.log.acks_lost = True
        b.clock.ahead_s += 8.5
        await until(lambda: "lease" in b.worker.missing())
        claim = b.machines.claims[0]
        b.machines.grant(claim)
        await asyncio.sleep(0.3)
        assert b.engine.load().running == 0
        assert await b.entries(generation) == []
        b.log.acks_lost = False
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.STOP
        assert len(b.machines.probes) == 1


async def test_what_was_answered_is_committed_before_partitions_are_given_up(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        for count in range(1, 4):  # faster than the commit of every second
            await b.finished(await b.ask({"text": "quick", "prefill_ms": 1}))
            b.log.share("milena-scripted-paid", LANE_TOPICS[(b.model.pool, Lane.PAID)])
            assert sum(b.log.committed.values()) == count


async def test_a_finished_whose_ack_is_lost_is_told_again_as_the_same_event(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"text": "twice", "prefill_ms": 200})
        await until(lambda: b.machines.owner(generation) is not None)
        b.log.acks_lost = True
        await until(lambda: len(b.machines.finished) > 0)
        b.log.acks_lost = False
        await until(lambda: len(b.machines.finished) > 1)
        assert b.machines.finished[0] == b.machines.finished[1]
        assert len({r.value for r in b.log.records(RUNS_INBOX)[1:]}) == 1


async def test_partitions_given_up_are_answered_by_the_other(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.machines.silent_claims = 1_000
        asked = [await b.ask({"text": f"n{n}", "prefill_ms": 5}) for n in range(12)]
        await until(lambda: len({c.generation_id for c in b.machines.claims}) == 12)
        other = b.make("worker-1")
        run = asyncio.create_task(other.run())
        await until(lambda: not other.missing())
        b.machines.silent_claims = 0
        for generation in asked:
            await b.finished(generation)
        owners = {claim.incarnation.split(".")[0] for claim in b.machines.claims}
        assert owners == {"worker-0", "worker-1"}
        assert len(b.machines.finished) == 12, "each once"
        other.stop()
        assert await run is None


async def test_read_ahead_is_bounded_and_goes_on(redis: RedisServer) -> None:
    few = type(QUICK)(flush_ms=50, idle_ms=200, heartbeat_s=0.5, read_ahead_max=4)
    async with bench(redis.url, settings=few, model=SCRIPTED_SMALL) as b:
        first = await b.ask({"text": "x", "prefill_ms": 300})
        await until(lambda: len(b.machines.claims) == 1)
        asked = []
        for n in range(20):
            asked.append(await b.ask({"text": f"n{n}", "prefill_ms": 1}))
            await asyncio.sleep(0)
        for generation in (first, *asked):
            await b.finished(generation)
        claimed = [claim.generation_id for claim in b.machines.claims]
        assert len(claimed) == 21
        topic = LANE_TOPICS[(b.model.pool, Lane.PAID)]
        for partition in range(b.log.partitions(topic)):
            sent = [r.key[4:] for r in b.log.records(topic) if r.partition == partition]
            assert [c for c in claimed if c in set(sent)] == sent, "in order"


async def test_drain_lets_answers_end_and_claims_no_more(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"words": 40, "tokens_per_s": 50, "prefill_ms": 5})
        await until_shown(lambda: b.shown(generation), lambda text: len(text) > 5)
        ending = asyncio.create_task(b.stop())
        await until(lambda: "worker" in b.worker.missing())
        late = await b.ask({"text": "too late"})
        assert await ending is None
        finished = b.machines.ended(generation)
        assert finished is not None
        assert finished.reason is FinishReason.STOP
        assert [claim.generation_id for claim in b.machines.claims] == [generation]
        assert b.machines.owner(late) is None
        assert sum(b.log.committed.values()) == 1
        assert b.machines.left == [finished.incarnation]


async def test_drain_ends_what_runs_too_long(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        assert await b.stop() is None
        finished = b.machines.ended(generation)
        assert finished is not None
        assert finished.reason is FinishReason.BACKEND_DEAD
        row = await b.store.result(generation)
        assert row is not None
        assert row.text == await b.shown(generation)
        assert len(row.text.split()) == finished.usage.output_tokens


async def test_drain_waits_for_no_store_that_is_away(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.store.away = True
        generation = await b.ask({"text": "kept", "prefill_ms": 5})
        await until_shown(lambda: b.shown(generation), lambda text: text == "kept")
        assert await b.stop() is None
        finished = b.machines.ended(generation)
        assert finished is not None
        assert finished.reason is FinishReason.FAILED


async def test_a_dead_engine_ends_its_answers_and_the_process(redis: RedisServer) -> None:
    engine = ScriptedEngine()
    async with bench(redis.url, engine=engine) as b:
        first = await running(b)
        engine._open = False  # as an engine whose process is gone
        second = await b.ask("never")
        await until(lambda: b.machines.ended(second) is not None)
        told = b.machines.ended(second)
        assert told is not None
        assert told.reason is FinishReason.BACKEND_DEAD
        b.machines.stop(first)
        reason = await b.gone()
        assert reason is not None
        assert reason.startswith("engine")
        assert b.machines.ended(first) is not None


async def test_a_log_that_can_be_written_no_more_ends_the_process_at_once(
    redis: RedisServer,
) -> None:
    async with bench(redis.url) as b:
        await running(b)
        b.worker.fatal("broken")
        assert await b.gone(4) == "broken"
        assert b.machines.finished == []


async def test_orders_that_cannot_be_read_end_the_process(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await running(b)
        readers = [r for r in b.log._readers if r.group is None]
        of_worker = [r for r in readers if r._topic is CONTROL_WORKERS]
        assert len(of_worker) == 1
        of_worker[0].failed = "gone"
        reason = await b.gone()
        assert reason is not None
        assert "orders" in reason
        finished = b.machines.ended(generation)
        assert finished is not None
        assert finished.reason is FinishReason.BACKEND_DEAD
