"""Stories of runs: one line per event and its expected answer."""

from typing import Any

import pytest
from msgspec.structs import replace

from processors.machine import STATE_BYTES_MAX, Event
from processors.runs import state as runs_state
from processors.runs.machine import RUNS
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
    StopReason,
    StreamControl,
    Tier,
    ToolFinished,
)
from tests.processors.events import (
    REPLIES,
    claim,
    closed,
    due,
    finished,
    lease_expired,
    probe,
    query,
    sixteen,
    spec,
    start,
    stop,
)
from tests.processors.story import T0_MS, Line, play
from topics.errors import NotSupported

DAY_S = 86_400
STARTED: Line = (
    0,
    start("a", T0_MS),
    "step e1 on scripted.free; closer#1 open queued; a queued g-a; +queued",
)
GRANTED: Line = (1, claim("a"), "w1#2 granted; usr_1 consume; w1 owned; +granted")
COMPLETED: Line = (
    3,
    finished("a"),
    "usr_1 settle completed 5; g-a used e1 5; w1 freed; "
    "closer#3 ended completed consumed row text e1 close e2; +ended completed",
)
UNKNOWN = "q status unknown"

STORIES: dict[str, list[Line]] = {
    "a life": [
        STARTED,
        (0.5, query(generation="g-a"), "q status queued held"),
        GRANTED,
        (2, query(generation="g-a"), "q status running consumed"),
        COMPLETED,
        (3, query(generation="g-a"), "q status ended consumed completed"),
        (4, closed("a"), "+closed completed"),
        (5, query(generation="g-a"), "q status closed consumed completed"),
        (5, closed("a"), ""),
    ],
    "a start that comes again hears queued again": [
        STARTED,
        (1, start("a", T0_MS), "a queued g-a"),
        GRANTED,
        (2, start("a", T0_MS), "a queued g-a"),
        COMPLETED,
        (9, start("a", T0_MS), "a queued g-a"),
        (9, replace(start("a", T0_MS), request_id="b"), ""),
    ],
    "a start nobody waits for": [
        (
            5.001,
            start("a", T0_MS),
            "usr_1 release late_start; a refused quota_service_unavailable retryable; +refused",
        ),
        (6, claim("a"), "w1#0 refused unknown_run"),
        (6, query(generation="g-a"), UNKNOWN),
        (
            6,
            start("b", T0_MS + 1_000),
            "step e1 on scripted.free; closer#1 open queued; b queued g-b; +queued",
        ),
    ],
    "a lane that is not there": [
        (
            0,
            start("a", T0_MS, of=replace(spec("g-a"), pool="nowhere")),
            "usr_1 release capacity; a refused capacity_exhausted retryable; +refused",
        ),
    ],
    "the paid lane": [
        (
            0,
            start("a", T0_MS, of=spec("g-a", tier=Tier.PAID)),
            "step e1 on scripted.paid; closer#1 open queued; a queued g-a; +queued",
        ),
    ],
    "one claim wins, and its winner hears so again": [
        STARTED,
        (0.5, claim("a", epoch=2), "w1#2 refused not_current"),
        (1, claim("a"), "w1#3 granted; usr_1 consume; w1 owned; +granted"),
        (1, claim("a", "w2"), "w2#4 refused not_current"),
        (2, claim("a"), "w1#5 granted"),
        (3, stop("a", waits=False), "closer#6 stop user; w1#7 stop user; +stop_requested"),
        (3, claim("a"), "w1#8 granted; w1#9 stop user"),
    ],
    "a claim past the queue deadline ends the run": [
        STARTED,
        (
            15,
            claim("a"),
            "w1#2 refused past_deadline; usr_1 release queue_deadline; "
            "closer#3 ended failed capacity_exhausted released text e0 close e2; +ended failed",
        ),
        (15, claim("a"), "w1#4 refused past_deadline"),
        (15, due(), ""),
    ],
    "nobody claims in time": [
        STARTED,
        (14.999, due(), ""),
        (
            15,
            due(),
            "usr_1 release queue_deadline; "
            "closer#2 ended failed capacity_exhausted released text e0 close e2; +ended failed",
        ),
        (16, claim("a"), "w1#3 refused past_deadline"),
        (16, query(generation="g-a"), "q status ended released failed"),
    ],
    "a stop while queued": [
        STARTED,
        (
            1,
            stop("a"),
            "usr_1 release cancelled; closer#2 ended cancelled released text e0 close e2; "
            "+ended cancelled; q status ended released cancelled",
        ),
        (1, claim("a"), "w1#3 refused stopped"),
        (2, stop("a"), "q status ended released cancelled"),
    ],
    "a reader lost while queued leaves the key free": [
        STARTED,
        (
            1,
            stop("a", StopReason.DISCONNECT, waits=False),
            "usr_1 release abandoned; closer#2 ended cancelled released text e0 close e2; "
            "+ended cancelled",
        ),
    ],
    "a stop while running, confirmed by the worker": [
        STARTED,
        GRANTED,
        (
            2,
            stop("a"),
            "closer#3 stop user; w1#4 stop user; +stop_requested; q status stopping stop consumed",
        ),
        (2.1, stop("a"), "q status stopping stop consumed"),
        (2.2, query(generation="g-a"), "q status stopping stop consumed"),
        (
            2.5,
            finished("a", FinishReason.STOPPED),
            "usr_1 settle cancelled 5; g-a used e1 5; w1 freed; "
            "closer#5 ended cancelled consumed row text e1 close e2; +ended cancelled",
        ),
    ],
    "a stop before Finished decides, though the answer was whole": [
        STARTED,
        GRANTED,
        (2, stop("a", waits=False), "closer#3 stop user; w1#4 stop user; +stop_requested"),
        (
            2.5,
            finished("a"),
            "usr_1 settle cancelled 5; g-a used e1 5; w1 freed; "
            "closer#5 ended cancelled consumed row text e1 close e2; +ended cancelled",
        ),
    ],
    "a stop after Finished changes nothing": [
        STARTED,
        GRANTED,
        COMPLETED,
        (4, stop("a"), "q status ended consumed completed"),
    ],
    "a stop nobody confirms": [
        STARTED,
        GRANTED,
        (2, stop("a", waits=False), "closer#3 stop user; w1#4 stop user; +stop_requested"),
        (6.9, due(), ""),
        (
            7,
            due(),
            "usr_1 settle cancelled 0 estimated; g-a used e1 0 estimated; w1 freed; "
            "closer#5 ended cancelled consumed text e1 close e2; +ended cancelled",
        ),
        # The worker comes back: its tokens are counted, its word is not.
        (8, finished("a"), "g-a used e1 5 void"),
        (8, finished("a"), ""),
        (8, probe("a"), "w1#6 fenced e2"),
    ],
    "a stop by somebody else": [
        STARTED,
        (1, stop("a", user="usr_2"), UNKNOWN),
        (1, query(generation="g-a", user="usr_2"), UNKNOWN),
        (1, stop("b"), UNKNOWN),
        GRANTED,
        (2, stop("a", user="usr_2", waits=False), ""),
        COMPLETED,
        (4, query(generation="g-a", user="usr_2"), UNKNOWN),
    ],
    "the run's deadline": [
        STARTED,
        GRANTED,
        (600.9, due(), ""),
        (601, due(), "closer#3 stop deadline; w1#4 stop deadline; +stop_requested"),
        (
            602,
            finished("a", FinishReason.STOPPED),
            "usr_1 settle failed 5; g-a used e1 5; w1 freed; closer#5 ended failed "
            "generation_timeout consumed row text e1 close e2; +ended failed",
        ),
    ],
    "the run's deadline, and a worker that hangs": [
        STARTED,
        GRANTED,
        (601, due(), "closer#3 stop deadline; w1#4 stop deadline; +stop_requested"),
        (602, stop("a"), "q status stopping stop consumed"),
        (
            606,
            due(),
            "usr_1 settle failed 0 estimated; g-a used e1 0 estimated; w1 freed; "
            "closer#5 ended failed generation_timeout consumed text e1 close e2; +ended failed",
        ),
    ],
    "a worker that saw the deadline first": [
        STARTED,
        GRANTED,
        (
            601,
            finished("a", FinishReason.STOPPED),
            "usr_1 settle failed 5; g-a used e1 5; w1 freed; closer#3 ended failed "
            "generation_timeout consumed row text e1 close e2; +ended failed",
        ),
    ],
    "a worker that dies": [
        STARTED,
        GRANTED,
        (
            12,
            lease_expired("a"),
            "+lease_lost; usr_1 settle failed 3 estimated; g-a used e1 3 estimated; w1 freed; "
            "closer#3 ended failed model_backend_error consumed text e1 close e2; +ended failed",
        ),
        (12, lease_expired("a"), ""),
        (13, finished("a"), "g-a used e1 5 void"),
        (13, finished("a"), ""),
        (13, claim("a"), "w1#4 refused ended"),
        (13, probe("a"), "w1#5 fenced e2"),
        (14, closed("a"), "+closed failed"),
        (15, finished("a"), ""),
        (15, probe("a"), "w1#6 fenced e2"),
    ],
    "a worker that dies under a stop": [
        STARTED,
        GRANTED,
        (2, stop("a", waits=False), "closer#3 stop user; w1#4 stop user; +stop_requested"),
        (
            3,
            lease_expired("a"),
            "+lease_lost; usr_1 settle cancelled 3 estimated; g-a used e1 3 estimated; w1 freed; "
            "closer#5 ended cancelled consumed text e1 close e2; +ended cancelled",
        ),
    ],
    "words of others are void": [
        STARTED,
        (0, lease_expired("a"), ""),
        (0, closed("a"), ""),
        (0, finished("a"), "g-a used e1 5 void"),
        (0, finished("a"), ""),
        GRANTED,
        (2, finished("a", who="w2"), "g-a used e1 5 void"),
        (2, finished("a", epoch=2), "g-a used e2 5 void"),
        (2, lease_expired("a", who="w2"), ""),
        (2, lease_expired("a", epoch=2), ""),
        COMPLETED,
        (3, finished("a"), ""),
        (3, lease_expired("a"), ""),
        (3, closed("a", epoch=1), ""),
    ],
    "a probe": [
        (0, probe("a"), "w1#0 fenced e1"),
        STARTED,
        (0.5, probe("a"), "w1#2 fenced e1"),
        (1, claim("a"), "w1#3 granted; usr_1 consume; w1 owned; +granted"),
        (2, probe("a"), "w1#4 current; closer#5 open running"),
        (2, probe("a", "w2"), "w2#6 fenced e1"),
        (3, stop("a", waits=False), "closer#7 stop user; w1#8 stop user; +stop_requested"),
        (3, probe("a"), "w1#9 current stop=user; closer#10 open cancel_requested stop=user"),
    ],
    "Ended is said until the closer answers, ever more rarely": [
        STARTED,
        GRANTED,
        COMPLETED,
        (4.9, due(), ""),
        (5, due(), "closer#4 ended completed consumed row text e1 close e2"),
        (8, due(), ""),
        (9, due(), "closer#5 ended completed consumed row text e1 close e2"),
        (9, due(), ""),
        (17, due(), "closer#6 ended completed consumed row text e1 close e2"),
        (33, due(), "closer#7 ended completed consumed row text e1 close e2"),
        (65, due(), "closer#8 ended completed consumed row text e1 close e2"),
        (124, due(), ""),
        (125, due(), "closer#9 ended completed consumed row text e1 close e2"),
        (185, due(), "closer#10 ended completed consumed row text e1 close e2"),
        (186, closed("a"), "+closed completed"),
        (300, due(), ""),
    ],
    "a closed run leaves a day after its end": [
        STARTED,
        GRANTED,
        COMPLETED,
        (9, closed("a"), "+closed completed"),
        (DAY_S + 2, due(), ""),
        (DAY_S + 2, query(generation="g-a"), "q status closed consumed completed"),
        (DAY_S + 3, due(), ""),
        (DAY_S + 3, query(generation="g-a"), UNKNOWN),
        (DAY_S + 3, claim("a"), "w1#0 refused unknown_run"),
    ],
    "how a worker's reason ends a run": [
        STARTED,
        GRANTED,
        (
            2,
            finished("a", FinishReason.TOO_LONG),
            "usr_1 settle failed 5; g-a used e1 5; w1 freed; closer#3 ended failed "
            "invalid_request consumed row text e1 close e2; +ended failed",
        ),
    ],
    "what is unknown is void, and who waits is answered": [
        (0, finished("a"), ""),
        (0, lease_expired("a"), ""),
        (0, closed("a"), ""),
        (0, due(), ""),
        (0, stop("a"), UNKNOWN),
        (0, stop("a", waits=False), ""),
        (0, query(generation="g-a"), UNKNOWN),
        (0, claim("a"), "w1#0 refused unknown_run"),
        (0, probe("a", epoch=4), "w1#0 fenced e4"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    play(RUNS, "run_1", STORIES[story])


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
