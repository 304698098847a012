"""What every engine promises, asked of each: one file, the same tests for all.

The model's engines run with a small context, so that a full one is short. Times are asserted only
as bounds that a busy machine keeps; how fast an engine is belongs to the benchmarks.
"""

import asyncio
import importlib.util
import json
import socket
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import psutil
import pytest

from connectors.tokens import Message, tokenizer_for
from inference.context.prompt import build_prompt
from inference.engines.base import (
    Delta,
    Done,
    Engine,
    EngineError,
    EngineErrorKind,
    EngineRequest,
    FinishReason,
    Sampling,
)
from inference.engines.scripted import ScriptedEngine

CONTEXT = 640
SLOTS = 2
GREEDY = Sampling(temperature=0.0)
STOPPED_S_MAX = 20.0
_names = count()


@dataclass(frozen=True)
class Case:
    """An engine, and contents that make it do what a test needs."""

    make: Callable[[], Engine]
    short: str  # ends by itself
    long: str  # goes on for 200 tokens at least
    other: str  # as long, with another text
    emoji: str  # answers with characters of several tokens
    slow_prefill: str  # reads for a second at least
    filler: str  # one more token of input


def llama() -> Engine:
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed")
    from inference.engines.llama_cpp import LlamaCppEngine
    from inference.engines.llama_native import LlamaCppSettings

    return LlamaCppEngine(LlamaCppSettings(context_tokens=CONTEXT, slots=SLOTS))


def vllm() -> Engine:
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("vllm is not installed")
    module = pytest.importorskip("inference.engines.vllm")
    engine: Engine = module.contract_engine(context_tokens=CONTEXT, slots=SLOTS)
    return engine


def script(**parts: Any) -> str:
    return json.dumps({"script": {"prefill_ms": 0, "tokens_per_s": 200, **parts}})


FAMILY = "👨\u200d👩\u200d👧🎉那个é"
MODEL = {
    "short": "Say hello.",
    "long": "Write a long story about a dragon and a lighthouse.",
    "other": "Write a long letter about the history of bread.",
    "emoji": f"Reply only with these emoji: {FAMILY}",
    "slow_prefill": "big world " * 290,
    "filler": " dragon",
}
CASES = {
    "scripted": Case(
        make=lambda: ScriptedEngine(slots=SLOTS, context_tokens=CONTEXT),
        short=script(text="Hello there!"),
        long=script(words=400),
        other=script(tokens=[f"token{n}," for n in range(200)]),
        emoji=script(bytes=[bytes([byte]).hex() for byte in (FAMILY * 3).encode()]),
        slow_prefill=script(words=400, prefill_ms=60_000),
        filler=" word",
    ),
    "llama_cpp": Case(make=llama, **MODEL),
    "vllm": Case(make=vllm, **MODEL),
}


@pytest.fixture(scope="module", params=CASES)
def started(request: pytest.FixtureRequest) -> Iterator[tuple[Case, Engine]]:
    """One engine for all tests of a case: they must leave it idle."""
    case = CASES[request.param]
    engine = case.make()
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        runner.run(engine.start())
        yield case, engine
        runner.run(engine.close())


@pytest.fixture
def case(started: tuple[Case, Engine]) -> Case:
    return started[0]


@pytest.fixture
def engine(started: tuple[Case, Engine]) -> Iterator[Engine]:
    yield started[1]
    assert started[1].load().running == 0
    assert started[1].load().waiting == 0


def ask(
    engine: Engine, content: str, most: int = 40, sampling: Sampling = GREEDY, epoch: int = 1
) -> EngineRequest:
    prompt = build_prompt(engine.family, [Message("user", content)])
    return EngineRequest(f"gen_{next(_names)}", epoch, prompt, most, sampling)


def checked(steps: list[Delta | Done]) -> tuple[str, Done]:
    """The text and the end of a finished stream, after the laws that hold for every one."""
    done = steps[-1]
    assert isinstance(done, Done)
    deltas = [step for step in steps[:-1] if isinstance(step, Delta)]
    assert len(deltas) == len(steps) - 1, "one end, and nothing after it"
    assert sum(delta.tokens for delta in deltas) <= done.output_tokens
    assert done.cached_input_tokens <= done.input_tokens
    for delta in deltas:
        assert "\ufffd" not in delta.text
        delta.text.encode()
    return "".join(delta.text for delta in deltas), done


async def whole(engine: Engine, request: EngineRequest) -> tuple[str, Done]:
    return checked([step async for step in engine.generate(request)])


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop turns until the condition holds."""
    for _ in range(1_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


async def until_text(stream: AsyncGenerator[Delta | Done, None]) -> list[Delta | Done]:
    """Steps up to the first that shows something."""
    steps: list[Delta | Done] = []
    async for step in stream:
        steps.append(step)
        if isinstance(step, Delta) and step.text:
            return steps
    raise AssertionError("no text at all")


async def test_it_keeps_the_protocol(engine: Engine) -> None:
    assert isinstance(engine, Engine)
    assert engine.context_tokens == CONTEXT
    assert engine.load().slots == SLOTS


async def test_an_answer_ends_once_with_true_usage(case: Case, engine: Engine) -> None:
    request = ask(engine, case.short, 100)
    text, done = await whole(engine, request)
    assert text
    assert done.reason is FinishReason.STOP
    assert 0 < done.output_tokens <= 100
    messages = [Message("user", case.short)]
    assert done.input_tokens == tokenizer_for(engine.family).count_prompt(messages)


async def test_the_same_request_gives_the_same_text(case: Case, engine: Engine) -> None:
    greedy = [await whole(engine, ask(engine, case.long)) for _ in range(2)]
    assert greedy[0] == greedy[1]
    warm = Sampling(temperature=1.0, top_p=0.9, seed=7)
    seeded = [await whole(engine, ask(engine, case.long, sampling=warm)) for _ in range(2)]
    assert seeded[0] == seeded[1]


async def test_text_is_cut_between_characters_only(case: Case, engine: Engine) -> None:
    full, _ = await whole(engine, ask(engine, case.emoji, 24))
    assert len(full.encode()) > len(full)
    cuts = range(1, 12)
    ends = [await whole(engine, ask(engine, case.emoji, most)) for most in cuts]
    for (text, done), most in zip(ends, cuts, strict=True):
        assert full.startswith(text)
        assert (done.reason, done.output_tokens) == (FinishReason.LENGTH, most)
    assert len({text for text, _ in ends}) < len(ends), "no cut fell inside a character"


async def test_one_token_is_one_token(case: Case, engine: Engine) -> None:
    text, done = await whole(engine, ask(engine, case.long, 1))
    assert text
    assert (done.reason, done.output_tokens) == (FinishReason.LENGTH, 1)


async def test_a_stop_string_is_never_shown(case: Case, engine: Engine) -> None:
    full, without = await whole(engine, ask(engine, case.long, 30))
    stop = full[21:31]
    sampling = Sampling(temperature=0.0, stop=("\x00never", stop))
    text, done = await whole(engine, ask(engine, case.long, 30, sampling))
    assert text == full[: full.index(stop)]
    assert done.reason is FinishReason.STOP
    assert done.output_tokens < without.output_tokens


async def test_a_stop_string_that_never_ends_is_shown(case: Case, engine: Engine) -> None:
    full, _ = await whole(engine, ask(engine, case.long, 12))
    sampling = Sampling(temperature=0.0, stop=(full[-3:] + "\x00",))
    text, done = await whole(engine, ask(engine, case.long, 12, sampling))
    assert (text, done.reason) == (full, FinishReason.LENGTH)


async def test_a_prompt_over_the_context_is_refused(case: Case, engine: Engine) -> None:
    tokenizer = tokenizer_for(engine.family)
    least = tokenizer.count_prompt([Message("user", case.short)])
    for over in (0, 1, 500):
        content = case.short + case.filler * (CONTEXT - least + over)
        request = ask(engine, content)
        assert len(request.prompt.token_ids) == CONTEXT + over
        with pytest.raises(EngineError) as caught:
            await whole(engine, request)
        assert caught.value.kind is EngineErrorKind.TOO_LONG
        assert case.short not in str(caught.value)


async def test_a_prompt_that_leaves_one_token_gets_one(case: Case, engine: Engine) -> None:
    tokenizer = tokenizer_for(engine.family)
    least = tokenizer.count_prompt([Message("user", case.filler + case.long)])
    request = ask(engine, case.filler * (CONTEXT - least) + case.long, 50)
    _, done = await whole(engine, request)
    assert done == Done(FinishReason.LENGTH, CONTEXT - 1, 0, 1)


async def test_an_abort_stops_within_a_token(case: Case, engine: Engine) -> None:
    request = ask(engine, case.long, 400)
    stream = engine.generate(request)
    steps = await until_text(stream)
    async with asyncio.timeout(STOPPED_S_MAX):
        await engine.abort(request.generation_id, request.epoch)
    assert engine.load().running == 0
    seen = sum(step.tokens for step in steps if isinstance(step, Delta))
    steps += [step async for step in stream]
    _, done = checked(steps)
    assert done.reason is FinishReason.ABORTED
    assert done.input_tokens == len(request.prompt.token_ids)
    assert seen <= done.output_tokens <= seen + 5, "it went on after the abort"


async def test_an_abort_in_prefill_is_bounded(case: Case, engine: Engine) -> None:
    request = ask(engine, case.slow_prefill, 400)
    reader = asyncio.create_task(whole(engine, request))
    await until(lambda: engine.load().running > 0)
    async with asyncio.timeout(STOPPED_S_MAX):
        await engine.abort(request.generation_id, request.epoch)
    text, done = await reader
    assert (text, done.reason, done.output_tokens) == ("", FinishReason.ABORTED, 0)


async def test_after_an_abort_the_next_request_works(case: Case, engine: Engine) -> None:
    alone = await whole(engine, ask(engine, case.short, 20))
    for content in (case.long, case.slow_prefill, case.long):
        request = ask(engine, content, 400)
        reader = asyncio.create_task(whole(engine, request))
        await until(lambda: engine.load().running > 0)
        await engine.abort(request.generation_id, request.epoch)
        assert (await reader)[1].reason is FinishReason.ABORTED
    assert await whole(engine, ask(engine, case.short, 20)) == alone


async def test_an_abort_of_what_does_not_run_is_nothing(case: Case, engine: Engine) -> None:
    await engine.abort("gen_unknown", 1)
    request = ask(engine, case.short, 20)
    await whole(engine, request)
    await engine.abort(request.generation_id, request.epoch)


async def test_closing_or_cancelling_the_reader_aborts(case: Case, engine: Engine) -> None:
    closed = engine.generate(ask(engine, case.long, 400))
    await until_text(closed)
    await closed.aclose()
    assert engine.load().running == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await whole(engine, ask(engine, case.slow_prefill, 400))
    assert engine.load().running == 0


async def test_streams_side_by_side_do_not_mix(case: Case, engine: Engine) -> None:
    contents = [case.long, case.other]
    alone = [await whole(engine, ask(engine, content, 25)) for content in contents]
    together = await asyncio.gather(
        *(whole(engine, ask(engine, content, 25)) for content in contents)
    )
    assert together == alone
    assert alone[0] != alone[1]


async def test_more_requests_than_slots_wait_their_turn(case: Case, engine: Engine) -> None:
    requests = [ask(engine, case.long, 10) for _ in range(SLOTS + 2)]
    readers = [asyncio.create_task(whole(engine, request)) for request in requests]
    await until(lambda: engine.load().waiting == 2)
    assert engine.load().running == SLOTS
    await engine.abort(requests[-1].generation_id, 1)
    *ends, withdrawn = await asyncio.gather(*readers)
    assert withdrawn == ("", Done(FinishReason.ABORTED, 0, 0, 0))
    assert len(set(ends)) == 1


async def test_one_epoch_runs_once_at_a_time(case: Case, engine: Engine) -> None:
    request = ask(engine, case.long, 400)
    stream = engine.generate(request)
    await until_text(stream)
    with pytest.raises(ValueError, match="computed already"):
        await anext(engine.generate(request))
    await engine.abort(request.generation_id, 2)
    assert engine.load().running == 1, "another epoch is another sequence"
    await stream.aclose()
    assert (await whole(engine, ask(engine, case.short, 5)))[1].output_tokens > 0


def listening() -> set[tuple[str, str]]:
    sockets = psutil.Process().net_connections(kind="all")
    names = {("unix", str(s.laddr)) for s in sockets if s.family == socket.AF_UNIX and s.laddr}
    ports = {("inet", str(s.laddr)) for s in sockets if s.status == psutil.CONN_LISTEN}
    return names | ports


async def test_it_listens_nowhere_writes_nothing_and_closes(
    started: tuple[Case, Engine], capfd: pytest.CaptureFixture[str]
) -> None:
    case, _ = started
    before = listening()
    engine = case.make()
    with pytest.raises(EngineError) as caught:
        await whole(engine, ask(engine, case.short))
    assert caught.value.kind is EngineErrorKind.ENGINE_DEAD
    await engine.start()
    opened = listening() - before
    assert not [name for name in opened if name[0] != "unix"]
    for _, path in opened:
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_unix_connection(path)
    running = asyncio.create_task(whole(engine, ask(engine, case.long, 400)))
    await until(lambda: engine.load().running > 0)
    await engine.close()
    assert (await running)[1].reason is FinishReason.ABORTED
    await engine.close()
    with pytest.raises(EngineError):
        await whole(engine, ask(engine, case.short))
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "")
