"""The small tables: ends, orders, clearance, JSON of chunks, waits, payloads."""

import asyncio

import pytest

from connectors.errors import RedisAway, StoreUnavailable
from inference.alarm import Alarm
from inference.clearance import Clearance
from inference.ending import (
    UNCOMPUTABLE,
    UNSTARTED,
    AbortCause,
    failure_of,
    finish_reason,
    usage_of,
)
from inference.engines.base import Done, EngineErrorKind
from inference.engines.base import FinishReason as EngineReason
from inference.numbers import HighestNumber
from inference.payloads import Payloads, engine_request
from schemas.generated.types import (
    Current,
    Fenced,
    FinishReason,
    Granted,
    StopOrder,
    WorkerControl,
)
from tests.inference.test_claims import request


@pytest.mark.parametrize(
    ("end", "cause", "reason"),
    [
        (EngineReason.STOP, None, FinishReason.STOP),
        (EngineReason.LENGTH, None, FinishReason.LENGTH),
        (EngineReason.STOP, AbortCause.STOPPED, FinishReason.STOP),
        (EngineReason.ABORTED, AbortCause.STOPPED, FinishReason.STOPPED),
        (EngineReason.ABORTED, AbortCause.FULL, FinishReason.LENGTH),
        (EngineReason.STOP, AbortCause.FULL, FinishReason.LENGTH),
        (EngineReason.ABORTED, AbortCause.DEADLINE, FinishReason.STOPPED),
        (EngineReason.ABORTED, AbortCause.FENCED, FinishReason.STOPPED),
        (EngineReason.ABORTED, AbortCause.LAPSED, FinishReason.BACKEND_DEAD),
        (EngineReason.ABORTED, AbortCause.DRAINED, FinishReason.BACKEND_DEAD),
        (EngineReason.ABORTED, None, FinishReason.BACKEND_DEAD),
    ],
)
def test_reason(end: EngineReason, cause: AbortCause | None, reason: FinishReason) -> None:
    assert finish_reason(Done(end, 1, 0, 1), cause) is reason


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (EngineErrorKind.TOO_LONG, FinishReason.TOO_LONG),
        (EngineErrorKind.OUT_OF_MEMORY, FinishReason.FAILED),
        (EngineErrorKind.BACKEND_ERROR, FinishReason.FAILED),
        (EngineErrorKind.ENGINE_DEAD, FinishReason.BACKEND_DEAD),
    ],
)
def test_failure(kind: EngineErrorKind, reason: FinishReason) -> None:
    assert finish_reason(failure_of(kind), AbortCause.STOPPED) is reason


def test_usage_is_true_where_the_engine_told_it_and_an_estimate_where_it_failed() -> None:
    told = usage_of(Done(EngineReason.ABORTED, 9, 4, 7), 9, 5)
    assert (told.input_tokens, told.cached_input_tokens, told.output_tokens) == (9, 4, 7)
    assert not told.estimated
    guessed = usage_of(UNCOMPUTABLE, 9, 5)
    assert (guessed.input_tokens, guessed.output_tokens, guessed.estimated) == (9, 5, True)
    nothing = usage_of(UNSTARTED, 0, 0)
    assert (nothing.input_tokens, nothing.output_tokens, nothing.estimated) == (0, 0, False)
    assert not usage_of(UNCOMPUTABLE, 0, 0).estimated


def control(number: int, body: Granted | StopOrder | Current | Fenced) -> WorkerControl:
    return WorkerControl(
        event_id=f"e{number}", generation_id="gen_1", epoch=1, number=number, body=body
    )


def test_the_highest_number_holds() -> None:
    numbers = HighestNumber()
    assert numbers.news(control(2, StopOrder()))
    assert not numbers.news(control(2, StopOrder()))
    assert not numbers.news(control(1, Current()))
    assert numbers.news(control(3, Current()))
    granted = Granted(admitted_at_ms=1, run_deadline_at_ms=2)
    assert numbers.news(control(1, granted)), "whether it holds is up to the claim that waits"
    assert numbers.news(control(0, Fenced(epoch=2))), "an epoch that is over stays over"


def test_numbers_are_bounded() -> None:
    numbers = HighestNumber(generations_max=1)
    first = control(5, StopOrder())
    other = WorkerControl(event_id="o", generation_id="gen_2", epoch=1, number=1, body=StopOrder())
    assert numbers.news(first)
    assert numbers.news(other)
    assert numbers.news(first), "forgotten"


def test_clearance_asks_once_a_second_while_the_log_answers() -> None:
    clearance = Clearance(suspended=False)
    assert not clearance.probe_due(0.0, live=True)
    clearance.suspend()
    assert (clearance.fenced, clearance.cleared) == (False, False)
    assert not clearance.probe_due(1.0, live=False)
    asked = [t / 10 for t in range(10, 40) if clearance.probe_due(t / 10, live=True)]
    assert asked == [1.0, 2.0, 3.0]
    clearance.current()
    assert (clearance.fenced, clearance.cleared) == (False, True)
    clearance.fence()
    clearance.current()
    assert (clearance.fenced, clearance.cleared) == (True, False)
    assert not clearance.probe_due(9.0, live=True)


async def test_an_alarm_ends_at_a_ring_or_its_time() -> None:
    loop = asyncio.get_running_loop()
    alarm = Alarm(loop)
    began = loop.time()
    await alarm.wait(0.02)
    assert loop.time() - began >= 0.015
    loop.call_later(0.01, alarm.ring)
    await alarm.wait(5.0)
    alarm.ring()
    await alarm.wait(5.0)
    assert loop.time() - began < 1.0
    await alarm.wait(0.0)


class Sources:
    """A near and a kept source of bodies, each of which may be away for some calls."""

    def __init__(self, near: bytes | None, kept: bytes | None, away: int) -> None:
        self.near, self.kept, self.away = near, kept, away

    async def from_near(self, generation_id: str) -> bytes | None:
        if self.away > 0:
            raise RedisAway("away")
        return self.near

    async def from_kept(self, generation_id: str) -> bytes | None:
        self.away -= 1
        if self.away >= 0:
            raise StoreUnavailable("away")
        return self.kept


BODY = b'{"messages":[{"role":"user","content":"hi there"}],"stop":["END"]}'


@pytest.mark.parametrize(
    ("near", "kept", "away", "found"),
    [
        (BODY, None, 0, True),
        (None, BODY, 0, True),
        (None, BODY, 2, True),
        (None, None, 0, False),
        (None, None, 1_000, False),
        (b"not json", BODY, 0, False),
    ],
)
async def test_payload(near: bytes | None, kept: bytes | None, away: int, found: bool) -> None:
    sources = Sources(near, kept, away)
    payloads = Payloads(sources.from_near, sources.from_kept, asyncio.get_running_loop().time)
    payload = await payloads.load("gen_1", 0.2)
    assert (payload is not None) is found
    if payload is not None:
        made = await engine_request("scripted", request(1).step, payload)
        assert len(made.prompt.token_ids) == 2
        assert made.sampling.stop == ("END",)
        assert made.cache_salt is None
