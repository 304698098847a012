"""What stories do not tell of runs: reasons, times, bounds, and what is not built."""

from typing import Any

import pytest
from msgspec.structs import replace

from processors.machine import STATE_BYTES_MAX, Event
from processors.runs import state as runs_state
from processors.runs.machine import runs_machine
from processors.runs.state import CLOSED_MAX, OPEN_MAX, Runs
from processors.stored import encode_state
from schemas.generated.types import (
    Abandon,
    Api,
    Delete,
    EmergencyAdmitted,
    Ended,
    FinishReason,
    Lane,
    Notice,
    OnWorkerLoss,
    Persisting,
    Phase,
    Reassigned,
    Reconcile,
    Restore,
    Retract,
    StreamControl,
    ToolFinished,
)
from tests.processors.events import (
    REPLIES,
    claim,
    closed,
    finished,
    lease_expired,
    query,
    sixteen,
    spec,
    start,
)
from tests.processors.story import T0_MS, Line, play
from topics.errors import NotSupported

RUNS = runs_machine()
STARTED: Line = (
    0,
    start("a", T0_MS),
    "step e1 on scripted.free; closer#1 open queued; a queued g-a; +queued",
)
GRANTED: Line = (1, claim("a"), "w1#2 granted; usr_1 consume; w1 owned; +granted")


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        (FinishReason.STOP, ("completed", None)),
        (FinishReason.LENGTH, ("completed", None)),
        (FinishReason.STOPPED, ("cancelled", None)),
        (FinishReason.FAILED, ("failed", "model_backend_error")),
        (FinishReason.BACKEND_DEAD, ("failed", "model_backend_error")),
        (FinishReason.UNKNOWN, ("failed", "model_backend_error")),
        (FinishReason.TOO_LONG, ("failed", "invalid_request")),
    ],
)
def test_a_reason_ends_a_run(reason: FinishReason, end: tuple[str, str | None]) -> None:
    state = play(RUNS, "run_1", [STARTED, GRANTED])
    _, outputs = RUNS.fold(state, _event(finished("a", reason), 2))
    (body,) = [
        output.value.body
        for output in outputs
        if isinstance(output.value, StreamControl) and isinstance(output.value.body, Ended)
    ]
    assert (body.terminal, body.code) == end
    assert body.finish_reason is reason


def test_times_and_bounds_ride_in_the_records() -> None:
    state, outputs = RUNS.fold(None, _event(start("a", T0_MS, route_hint=5), 1))
    step, opened, queued, _ = (output.value for output in outputs)
    assert (outputs[0].partition, outputs[0].key) == (5, "run_1")
    assert step.admitted_at_ms == queued.body.admitted_at_ms == T0_MS + 1_000
    assert step.queue_deadline_at_ms == queued.body.queue_deadline_at_ms == T0_MS + 16_000
    assert opened.body.ttl_ms == 15_000 + 600_000 + 600_000
    assert opened.body.runs_key == "run_1"
    assert state is not None
    assert RUNS.next_deadline(state) == T0_MS + 16_000
    state, outputs = RUNS.fold(state, _event(claim("a"), 3))
    assert outputs[0].value.body.run_deadline_at_ms == T0_MS + 603_000
    assert outputs[3].value.queue_ms == 2_000
    assert state is not None
    assert RUNS.next_deadline(state) == T0_MS + 603_000
    _, outputs = RUNS.fold(state, _event(finished("a"), 4))
    assert outputs[-1].value.run_ms == 1_000
    used = outputs[1].value.body
    assert (used.granted_at_ms, used.ended_at_ms) == (T0_MS + 3_000, T0_MS + 4_000)


def test_a_key_with_too_many_open_runs_refuses_the_next() -> None:
    state: Runs | None = None
    for number in range(OPEN_MAX):
        state, _ = RUNS.fold(state, _event(start(str(number), T0_MS), 0))
    expected = "usr_1 release capacity; x refused capacity_exhausted retryable; +refused"
    play(RUNS, "run_1", [(0, start("x", T0_MS), expected)], state)


def test_a_full_key_fits_under_the_cap() -> None:
    """The oldest closed run leaves for the newest; ids are as long as the real ones."""
    state: Runs | None = None
    user, who = f"usr_{0:026d}", "smollm2-small-0/" + "f" * 16
    for number in range(CLOSED_MAX + OPEN_MAX + 1):
        long = replace(
            spec(f"gen_{number:026d}"),
            runs_key="run_" + "f" * 32,
            model="flagship",
            model_version="smollm2-135m-instruct-q4_1-2k@1",
            pool="smollm2-small",
        )
        events: list[Any] = [
            replace(start(f"{number:036d}", T0_MS, user=user), spec=long),
            replace(claim("x", who), generation_id=long.generation_id),
            replace(lease_expired("x", who), generation_id=long.generation_id),
            replace(finished("x", who=who), generation_id=long.generation_id),
            replace(closed("x"), generation_id=long.generation_id),
        ]
        for body in events[: 2 if number > CLOSED_MAX else 5]:
            state, _ = RUNS.fold(state, _event(body, 0))
    assert state is not None
    assert (len(state.closed), len(state.active)) == (CLOSED_MAX, OPEN_MAX)
    assert f"gen_{0:026d}" not in state.closed
    assert len(encode_state(state)) < STATE_BYTES_MAX


def test_over_the_cap_a_start_gives_its_hold_back() -> None:
    outputs = RUNS.over_cap(_event(start("a", T0_MS), 0))
    assert [output.topic.name for output in outputs] == [
        "accounts.inbox",
        "edge.replies",
        "facts.runs",
    ]
    assert RUNS.over_cap(_event(claim("a"), 0)) == ()


@pytest.mark.parametrize(
    "body",
    [
        start("a", T0_MS, of=spec("g-a", api=Api.CONVERSATIONS)),
        start("a", T0_MS, of=replace(spec("g-a"), on_worker_loss=OnWorkerLoss.RESUME)),
        EmergencyAdmitted(
            request_id="r",
            user_id="u",
            identity=sixteen("k"),
            fingerprint=sixteen("f"),
            reply_partition=REPLIES,
            plan_version="p",
            spec=spec("g"),
        ),
        Persisting(generation_id="g", epoch=1, incarnation="w"),
        Retract(generation_id="g", category="c"),
        Abandon(request_id="r"),
        Delete(conversation_id="c"),
        Restore(conversation_id="c"),
        Reassigned(generation_id="g", notice=Notice(code="fallback_model")),
        Reconcile(generation_id="g", user_id="u"),
        ToolFinished(generation_id="g", epoch=1, step=1, outcome="ok", output_tokens=1),
        query(),
    ],
    ids=lambda body: type(body).__name__,
)
def test_what_is_not_built_is_said_so(body: Any) -> None:
    with pytest.raises(NotSupported):
        RUNS.fold(None, _event(body, 0))


def test_the_docstring_draws_the_table() -> None:
    drawn = set()
    for line in (runs_state.__doc__ or "").splitlines():
        if "--" in line:
            before, kind, after = line.replace("-", " ").replace(">", " ").split()[:3]
            drawn.add((Phase(before), kind, Phase(after)))
    assert drawn == runs_state.TRANSITIONS


def test_lanes_are_those_of_the_spec() -> None:
    resume = replace(spec("g-a"), lane=Lane.RESUME)
    _, outputs = RUNS.fold(None, _event(start("a", T0_MS, of=resume), 0))
    assert outputs[0].topic.name == "inference.scripted.resume"


def _event(body: Any, at_s: float) -> Event:
    return Event(event_id="e", key="run_1", append_ms=T0_MS + round(at_s * 1_000), body=body)
