"""The laws of the runs machine."""

from hypothesis import given, settings

from processors.machine import Event
from processors.runs.machine import runs_machine
from processors.runs.state import CLOSED_MAX, TRANSITIONS
from schemas.generated.types import Phase
from tests.processors import laws
from tests.processors.events import claim, closed, due, finished, lease_expired, start, stop
from tests.processors.logs import restarts, run_logs, timed

LOGS = run_logs()
RUNS = runs_machine()


@given(LOGS, restarts)
def test_replay(log: list[Event], again: list[laws.Restart]) -> None:
    laws.law_replay(RUNS, log, again)


@given(LOGS)
@settings(max_examples=150)
def test_runs_end_once(log: list[Event]) -> None:
    laws.law_runs_end_once(RUNS, log)


@given(LOGS)
@settings(max_examples=150)
def test_compute_only_after_a_grant(log: list[Event]) -> None:
    laws.law_compute_only_after_a_grant(RUNS, log)


@given(LOGS)
def test_used_once(log: list[Event]) -> None:
    laws.law_used_once(RUNS, log)


@given(LOGS)
def test_numbers_grow(log: list[Event]) -> None:
    laws.law_numbers_grow(RUNS, log)


@given(LOGS)
def test_transitions(log: list[Event]) -> None:
    laws.law_transitions(RUNS, log)


@given(LOGS)
def test_deadlines_move(log: list[Event]) -> None:
    laws.law_deadlines_move(RUNS, log)


def test_every_transition_of_the_table_happens() -> None:
    def one(request: str, *rest: tuple[int, object]) -> list[tuple[int, object]]:
        return [(0, lambda now_ms: start(request, now_ms)), *rest]

    logs = [
        one("a", (1, claim("a")), (1, finished("a")), (1, closed("a")), (90_000_000, due())),
        one("a", (15_000, claim("a"))),
        one("a", (15_000, due())),
        one("a", (1, stop("a"))),
        one("a", (1, claim("a")), (1, stop("a")), (1, finished("a"))),
        one("a", (1, claim("a")), (1, stop("a")), (1, lease_expired("a"))),
        one("a", (1, claim("a")), (600_000, due()), (5_000, due())),
        one("a", (1, claim("a")), (1, lease_expired("a"))),
        [
            line
            for number in range(CLOSED_MAX + 1)
            for line in one(f"r{number}", (1, stop(f"r{number}")), (1, closed(f"r{number}")))
        ],
    ]
    seen: set[tuple[Phase, str, Phase]] = set()
    for lines in logs:
        seen |= laws.law_transitions(RUNS, timed("run_1")(lines))
    assert seen == TRANSITIONS
