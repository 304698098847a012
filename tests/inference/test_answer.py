"""One request through a whole worker: claimed, granted, streamed, stored, told, in that order."""

import json

import msgspec
import pytest

from connectors.store.rows import ResultStatus
from inference.engines.scripted import ScriptedEngine
from schemas.generated.types import ClaimRefusal, FinishReason, Hold, Lane
from tests.inference.support import QUICK, SCRIPTED_SMALL, bench, payload_row, until, until_shown
from tests.support.redis_server import RedisServer
from topics.registry import LANE_TOPICS, RUNS_INBOX


async def test_an_answer_is_streamed_stored_and_told(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"text": "TCP keeps order.", "prefill_ms": 5})
        finished = await b.finished(generation)
        assert await b.shown(generation) == "TCP keeps order."
        assert finished.reason is FinishReason.STOP
        assert finished.usage.output_tokens == 3
        assert not finished.usage.estimated
        assert finished.code_points == 16
        assert finished.incarnation == b.machines.owner(generation)
        row = await b.store.result(generation)
        assert row is not None
        assert (row.status, row.text, row.hold) == (
            ResultStatus.PERSISTING,
            "TCP keeps order.",
            Hold.CONSUMED,
        )
        assert (row.finish_reason, row.output_tokens, row.epoch) == (FinishReason.STOP, 3, 1)
        assert await b.stop() is None
        assert b.machines.left == [finished.incarnation]


async def test_the_row_is_there_before_finished_is(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.store.away = True
        generation = await b.ask({"text": "kept", "prefill_ms": 5})
        await until_shown(lambda: b.shown(generation), lambda text: text == "kept")
        claims = len(b.log.records(RUNS_INBOX))
        await until(lambda: len(b.machines.beats) > 3)
        assert b.machines.ended(generation) is None
        assert len(b.log.records(RUNS_INBOX)) == claims
        owned = b.machines.beats[-1][1].owned
        assert [epoch.generation_id for epoch in owned] == [generation]
        b.store.away = False
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.STOP
        row = await b.store.result(generation)
        assert row is not None
        assert row.text == "kept"


async def test_a_store_away_past_the_deadline_is_never_a_completion(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.machines.run_ms = 700
        b.store.away = True
        generation = await b.ask({"text": "kept", "prefill_ms": 5})
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.FAILED
        assert finished.usage.output_tokens == 1
        assert await b.shown(generation) == "kept"


async def test_first_chunk_at_once_then_a_few_full_ones(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"words": 40, "tokens_per_s": 100, "prefill_ms": 0})
        await b.finished(generation)
        entries = await b.entries(generation)
        assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
        assert json.loads(entries[0].data)["delta"] == "word1 "
        assert 6 <= len(entries) <= 11, "400 ms at 50 ms a flush, the first and the last beside"
        assert {entry.epoch for entry in entries} == {1}


async def test_bytes_are_never_cut_inside_a_character(redis: RedisServer) -> None:
    pieces = [f"{byte:02x}" for byte in "那个e\u0301👨‍👩‍👧 \u2028ok".encode()]
    async with bench(redis.url) as b:
        generation = await b.ask({"bytes": pieces, "tokens_per_s": 100, "prefill_ms": 0})
        await b.finished(generation)
        assert await b.shown(generation) == "那个e\u0301👨‍👩‍👧 \u2028ok"
        for entry in await b.entries(generation):
            text = entry.data.decode()
            assert "\ufffd" not in text
            assert len(text.splitlines()) == 1
            assert json.loads(text)["delta"]


async def test_output_tokens_max_cuts_with_length(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"words": 40, "prefill_ms": 0}, output_tokens_max=3)
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.LENGTH
        assert await b.shown(generation) == "word1 word2 word3 "


async def test_an_answer_ends_at_its_bound_of_bytes_like_one_at_its_bound_of_tokens(
    redis: RedisServer,
) -> None:
    async with bench(redis.url, msgspec.structs.replace(QUICK, answer_bytes_max=20)) as b:
        generation = await b.ask({"tokens": ["那个那个"] * 9, "tokens_per_s": 20, "prefill_ms": 0})
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.LENGTH
        assert finished.usage.output_tokens == 2
        row = await b.store.result(generation)
        assert row is not None
        assert await b.shown(generation) == row.text == "那个那个那个"


async def test_a_row_that_the_store_never_takes_is_no_completion(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.store.unfit = True
        generation = await b.ask({"text": "kept", "prefill_ms": 5})
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.FAILED
        assert await b.shown(generation) == "kept"


async def test_a_refused_claim_computes_nothing_and_is_answered(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.machines.refuse = ClaimRefusal.STOPPED
        generation = await b.ask({"text": "never"})
        await until(lambda: len(b.machines.claims) == 1)
        topic = LANE_TOPICS[(b.model.pool, Lane.PAID)]
        await until(lambda: 1 in b.log.committed.values())
        assert await b.entries(generation) == []
        assert b.machines.ended(generation) is None
        assert next(group for group, _ in b.log.committed) == "milena-scripted-paid"
        assert len(b.log.records(topic)) == 1


async def test_an_unanswered_claim_is_sent_again(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.machines.silent_claims = 2
        generation = await b.ask({"text": "late", "prefill_ms": 5})
        await b.finished(generation)
        assert len(b.machines.claims) == 3
        assert len({record.value for record in b.log.records(RUNS_INBOX)}) == 4
        assert await b.shown(generation) == "late"


async def test_a_repeated_request_is_claimed_once(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"text": "once", "prefill_ms": 50})
        b.request(generation)
        await b.finished(generation)
        b.request(generation)
        await until(lambda: 3 in b.log.committed.values())
        assert len(b.machines.claims) == 1
        assert len(b.machines.finished) == 1


async def test_paid_is_claimed_before_free_and_only_what_fits(redis: RedisServer) -> None:
    async with bench(redis.url, model=SCRIPTED_SMALL) as b:
        first = await b.ask({"text": "x", "prefill_ms": 300})
        await until(lambda: len(b.machines.claims) == 1)
        free = await b.ask({"text": "free", "prefill_ms": 5}, lane=Lane.FREE)
        paid = await b.ask({"text": "paid", "prefill_ms": 5})
        assert len(b.machines.claims) == 1, "nothing fits"
        for generation in (first, free, paid):
            await b.finished(generation)
        assert [claim.generation_id for claim in b.machines.claims] == [first, paid, free]


async def test_a_payload_that_is_nowhere_fails_after_the_grant(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask("unused", payload=False)
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.FAILED
        assert finished.usage.output_tokens == 0
        assert finished.usage.input_tokens == 0
        assert await b.entries(generation) == []


async def test_a_payload_only_in_the_store_serves(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        await b.store.put_payload(payload_row("gen_kept", "from the store"))
        await b.ask("unused", payload=False, generation_id="gen_kept")
        await b.finished("gen_kept")
        assert await b.shown("gen_kept") == "from the store"


@pytest.mark.parametrize(
    ("script", "reason", "text"),
    [
        ({"words": 9, "fail_at": 2, "prefill_ms": 5}, FinishReason.FAILED, "word1 word2 "),
        ({"nonsense": 1}, FinishReason.FAILED, ""),
    ],
)
async def test_a_failed_engine_is_told_as_that(
    redis: RedisServer, script: dict[str, object], reason: FinishReason, text: str
) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask(script)
        finished = await b.finished(generation)
        assert finished.reason is reason
        assert await b.shown(generation) == text
        row = await b.store.result(generation)
        assert row is not None
        assert row.text == text


async def test_too_long_a_prompt_is_told_and_computes_nothing(redis: RedisServer) -> None:
    async with bench(redis.url, engine=ScriptedEngine(context_tokens=4)) as b:
        generation = await b.ask("far too many words for this")
        finished = await b.finished(generation)
        assert finished.reason is FinishReason.TOO_LONG
        assert (finished.usage.input_tokens, finished.usage.output_tokens) == (0, 0)


async def test_another_model_version_is_never_served_under_this_name(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask("echo", model_version="scripted@0")
        assert (await b.finished(generation)).reason is FinishReason.FAILED


async def test_an_unreadable_request_holds_up_nobody(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        b.log.raw(LANE_TOPICS[(b.model.pool, Lane.PAID)], "run_gen_" + "0" * 25 + "1", b"junk")
        b.log.raw(LANE_TOPICS[(b.model.pool, Lane.PAID)], "k", None)
        generation = await b.ask({"text": "fine", "prefill_ms": 5})
        await b.finished(generation)
        assert await b.shown(generation) == "fine"


async def test_heartbeats_tell_what_is_owned_and_how_far(redis: RedisServer) -> None:
    async with bench(redis.url) as b:
        generation = await b.ask({"words": 200, "tokens_per_s": 50, "prefill_ms": 5})
        await until(
            lambda: any(beat.owned and beat.owned[0].output_tokens for _, beat in b.machines.beats)
        )
        _, beat = b.machines.beats[-1]
        assert beat.owned[0].generation_id == generation
        assert beat.owned[0].epoch == 1
        assert (beat.pool, beat.slots) == ("scripted", b.model.slots)
        numbers = [told.beat for _, told in b.machines.beats]
        assert numbers == sorted(set(numbers))
