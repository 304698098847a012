"""Stories of runs: one line per event and its expected answer."""

import pytest
from msgspec.structs import replace

from processors.runs.machine import runs_machine
from schemas.generated.types import (
    FinishReason,
    StopReason,
    Tier,
)
from tests.processors.events import (
    claim,
    closed,
    due,
    finished,
    lease_expired,
    probe,
    query,
    spec,
    start,
    stop,
)
from tests.processors.story import T0_MS, Line, play

DAY_S = 86_400
RUNS = runs_machine()
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
