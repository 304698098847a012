"""The script language of the scripted engine, and its clock. What all engines share is tested in
the contract suite."""

import asyncio
import json
import resource
from typing import Any

import pytest

from connectors.tokens import Message
from inference.context.prompt import build_prompt
from inference.engines.base import (
    Delta,
    Done,
    EngineError,
    EngineErrorKind,
    EngineRequest,
    FinishReason,
    Sampling,
)
from inference.engines.scripted import ScriptedEngine


def request(content: str, name: str = "gen_1", *, most: int = 10_000, **more: Any) -> EngineRequest:
    return EngineRequest(
        generation_id=name,
        epoch=1,
        prompt=build_prompt("scripted", [Message("user", content)]),
        output_tokens_max=most,
        **more,
    )


def script(**parts: Any) -> str:
    return json.dumps({"script": {"prefill_ms": 0, "tokens_per_s": 10_000, **parts}})


async def play(content: str, **more: Any) -> tuple[str, Done]:
    engine = ScriptedEngine()
    await engine.start()
    steps = [step async for step in engine.generate(request(content, **more))]
    done = steps.pop()
    assert isinstance(done, Done)
    deltas = [step for step in steps if isinstance(step, Delta)]
    assert len(deltas) == len(steps)
    assert sum(delta.tokens for delta in deltas) == done.output_tokens
    assert engine.load().running == 0
    return "".join(delta.text for delta in deltas), done


@pytest.mark.parametrize(
    ("content", "text", "tokens"),
    [
        ("Hello  there,\nfriend ", "Hello  there,\nfriend ", 3),
        ('{"no": "script"}', '{"no": "script"}', 2),
        ("[1, 2", "[1, 2", 2),
        (script(text=" one two\u2028three"), " one two\u2028three", 4),
        (script(tokens=["a", "", "b c"]), "ab c", 3),
        (script(words=3), "word1 word2 word3 ", 3),
        (script(words=0), "", 0),
        (script(), "", 0),
        (script(bytes=[b"\xf0\x9f\x98".hex(), b"\x80!".hex()]), "😀!", 2),
        (script(bytes=["e982a3e4", "b8"]), "那", 2),
        (script(bytes=["41ff42", "c3"]), "AB", 2),
    ],
)
async def test_exactly_the_scripted_text(content: str, text: str, tokens: int) -> None:
    shown, done = await play(content)
    assert (shown, done.output_tokens, done.reason) == (text, tokens, FinishReason.STOP)


@pytest.mark.parametrize(
    "parts",
    [
        {"text": "a", "words": 1},
        {"text": 1},
        {"unknown": 1},
        {"bytes": ["zz"]},
        {"words": -1},
        {"words": 10**9},
        {"tokens_per_s": 0},
        {"text": "a", "tool_calls": [{"name": "search"}]},
    ],
)
async def test_a_script_that_cannot_be_played_is_an_error_without_its_text(
    parts: dict[str, Any],
) -> None:
    with pytest.raises(EngineError) as caught:
        await play(script(**parts))
    assert caught.value.kind is EngineErrorKind.BACKEND_ERROR
    assert "zz" not in str(caught.value)
    assert "unknown" not in str(caught.value)


async def test_the_last_user_message_is_played() -> None:
    messages = [Message("user", "first"), Message("assistant", "no"), Message("user", "second")]
    engine = ScriptedEngine()
    await engine.start()
    asked = EngineRequest("gen_1", 1, build_prompt("scripted", messages), 10)
    steps = [step async for step in engine.generate(asked)]
    assert steps[0] == Delta(text="second", tokens=1)
    assert steps[-1] == Done(FinishReason.STOP, 3, 0, 1)


async def test_it_fails_after_the_told_number_of_tokens() -> None:
    engine = ScriptedEngine()
    await engine.start()
    steps: list[Delta | Done] = []

    async def read() -> None:
        async for step in engine.generate(request(script(words=9, fail_at=2))):
            steps.append(step)

    with pytest.raises(EngineError) as caught:
        await read()
    assert caught.value.kind is EngineErrorKind.BACKEND_ERROR
    assert "".join(step.text for step in steps if isinstance(step, Delta)) == "word1 word2 "
    assert engine.load().running == 0


async def test_it_hangs_after_the_told_number_of_tokens_until_it_is_aborted() -> None:
    engine = ScriptedEngine()
    await engine.start()
    stream = engine.generate(request(script(words=9, hang_at=1)))
    assert await anext(stream) == Delta(text="word1 ", tokens=1)
    waiting = asyncio.create_task(anext(stream))
    await asyncio.wait([waiting], timeout=0.05)
    assert not waiting.done()
    await engine.abort("gen_1", 1)
    assert engine.load().running == 0
    done = await waiting
    assert isinstance(done, Done)
    assert (done.reason, done.output_tokens) == (FinishReason.ABORTED, 1)


async def test_an_abort_makes_no_token_later_however_slow_the_reader() -> None:
    engine = ScriptedEngine()
    await engine.start()
    stream = engine.generate(request(script(words=500, tokens_per_s=100)))
    await anext(stream)
    await engine.abort("gen_1", 1)
    await asyncio.sleep(0.1)
    rest = [step async for step in stream]
    done = rest[-1]
    assert isinstance(done, Done)
    assert done.reason is FinishReason.ABORTED
    assert done.output_tokens <= 2


async def test_the_pace_does_not_drift() -> None:
    engine = ScriptedEngine()
    await engine.start()
    clock = asyncio.get_running_loop().time
    began = clock()
    times = []
    async for step in engine.generate(request(script(words=41, tokens_per_s=100, prefill_ms=100))):
        if isinstance(step, Delta):
            times.append(clock() - began)
    assert 0.098 <= times[0] < 0.2
    assert 0.498 <= times[-1] < 0.6


async def test_usage_counts_words_and_caps_the_cache_at_the_prompt() -> None:
    _, done = await play(script(text="a b", cached_tokens=2, prefill_ms=0))
    assert done.input_tokens == len(script(text="a b", cached_tokens=2, prefill_ms=0).split())
    assert done.cached_input_tokens == 2
    _, done = await play("one", most=1)
    assert (done.input_tokens, done.cached_input_tokens) == (1, 0)


async def test_a_cut_last_character_is_dropped() -> None:
    shown, done = await play(script(bytes=["61", "e982", "a3"]), most=2)
    assert (shown, done.reason, done.output_tokens) == ("a", FinishReason.LENGTH, 2)


async def test_stop_strings_end_within_their_token() -> None:
    shown, done = await play(script(words=9), sampling=Sampling(stop=("d3",)))
    assert (shown, done.reason, done.output_tokens) == ("word1 word2 wor", FinishReason.STOP, 3)


async def test_a_wait_for_a_slot_can_be_aborted() -> None:
    engine = ScriptedEngine(slots=1)
    await engine.start()
    first = engine.generate(request(script(words=9, hang_at=1), "gen_1"))
    await anext(first)
    second = engine.generate(request("hello", "gen_2"))
    waiting = asyncio.create_task(anext(second))
    await asyncio.sleep(0)
    assert (engine.load().running, engine.load().waiting) == (1, 1)
    await engine.abort("gen_2", 1)
    assert await waiting == Done(FinishReason.ABORTED, 0, 0, 0)
    await first.aclose()
    assert engine.load().running == 0


async def test_many_streams_cost_little() -> None:
    """A guard against a busy loop, not a benchmark: 64 streams for one second of their time."""
    engine = ScriptedEngine()
    await engine.start()
    content = script(words=50, tokens_per_s=50)

    async def one(number: int) -> int:
        count = 0
        async for step in engine.generate(request(content, f"gen_{number}")):
            count += isinstance(step, Delta)
        return count

    before = resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(one(number) for number in range(64)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.7
