"""The laws of the workers machine."""

from hypothesis import given, settings

from processors.machine import Event
from processors.workers.machine import workers_machine
from tests.processors import laws
from tests.processors.logs import restarts, worker_logs

LOGS = worker_logs()
WORKERS = workers_machine()


@given(LOGS, restarts)
def test_replay(log: list[Event], again: list[laws.Restart]) -> None:
    laws.law_replay(WORKERS, log, again)


@given(LOGS)
@settings(max_examples=150)
def test_a_lease_ends_once(log: list[Event]) -> None:
    laws.law_a_lease_ends_once(WORKERS, log)


@given(LOGS)
def test_deadlines_move(log: list[Event]) -> None:
    laws.law_deadlines_move(WORKERS, log)
