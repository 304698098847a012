"""The laws of the accounts machine."""

from hypothesis import given, settings

from processors.machine import Event
from tests.processors import laws
from tests.processors.accounts import ACCOUNTS, PLANS
from tests.processors.logs import SHORT_MS, account_logs, restarts

LOGS = account_logs()


@given(LOGS, restarts)
def test_replay(log: list[Event], again: list[laws.Restart]) -> None:
    laws.law_replay(ACCOUNTS, log, again)


@given(LOGS)
def test_limits_hold(log: list[Event]) -> None:
    laws.law_limits_hold(ACCOUNTS, log, PLANS)


@given(LOGS)
def test_a_hold_ends_once(log: list[Event]) -> None:
    laws.law_hold_ends_once(ACCOUNTS, log)


@given(LOGS)
def test_a_refusal_costs_nothing(log: list[Event]) -> None:
    laws.law_refusal_costs_nothing(ACCOUNTS, log)


@given(account_logs(SHORT_MS))
@settings(max_examples=200)
def test_a_repeat_is_never_decided_anew(log: list[Event]) -> None:
    laws.law_repeat_is_never_decided_anew(ACCOUNTS, log)


@given(LOGS)
def test_deadlines_move(log: list[Event]) -> None:
    laws.law_deadlines_move(ACCOUNTS, log)


@given(LOGS)
def test_size(log: list[Event]) -> None:
    laws.law_size(ACCOUNTS, log)
