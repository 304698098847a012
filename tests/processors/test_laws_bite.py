"""Five seeded bugs, each of which must break a law: proof that the laws bite.

A bug is made by wrapping a machine's fold, so that the code under test stays whole. The fifth, an offset
committed before its acknowledgement, is the shell's and is seeded in `test_shell.py`.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from msgspec.structs import replace

from processors.admission.state import Account, Admission, Window
from processors.machine import Event, Machine, Outputs
from processors.runs.machine import runs_machine
from processors.runs.state import Runs
from schemas.generated.types import (
    Claim,
    EdgeReply,
    Finished,
    Refused,
    Release,
    Settle,
    Submit,
    Tier,
)
from schemas.generated.types import Phase as RunPhase
from tests.processors import laws
from tests.processors.accounts import ACCOUNTS, PLANS
from tests.processors.logs import SHORT_MS, Logs, account_logs, run_logs

RUNS = runs_machine()
RunsFold = Callable[[Runs | None, Event], tuple[Runs | None, Outputs]]
AccountFold = Callable[[Account | None, Event], tuple[Account | None, Outputs]]


def breaks(law: Callable[[list[Event]], None], logs: Logs) -> None:
    """Asserts that some log among a fixed number of them breaks the law."""

    @given(logs)
    @settings(
        max_examples=200,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
    )
    def try_it(log: list[Event]) -> None:
        law(log)

    with pytest.raises(AssertionError):
        try_it()


def with_fold(fold: AccountFold) -> Machine[Account]:
    return replace(ACCOUNTS, fold=fold)


def _ends_twice(state: Account | None, event: Event) -> tuple[Account | None, Outputs]:
    """An end of a generation that ended already is taken for its first."""
    if state is not None and isinstance(event.body, Release | Settle):
        generation = event.body.generation_id
        for identity, past in state.past.items():
            if past.generation_id == generation:
                revived = Admission(identity, past.request, Tier.FREE, consumed=False)
                state = replace(state, active={**state.active, generation: revived})
                break
    return ACCOUNTS.fold(state, event)


def test_a_hold_ended_twice_is_found() -> None:
    broken = with_fold(_ends_twice)
    breaks(lambda log: laws.law_hold_ends_once(broken, log), account_logs(SHORT_MS))
    breaks(lambda log: laws.law_limits_hold(broken, log, PLANS), account_logs(SHORT_MS))


def _costs(state: Account | None, event: Event) -> tuple[Account | None, Outputs]:
    """A refused request is counted as spent."""
    after, outputs = ACCOUNTS.fold(state, event)
    if after is not None and any(_is_refusal(output.value) for output in outputs):
        windows = {
            start_ms: Window(window.used + 1, window.held, window.end_ms)
            for start_ms, window in after.windows.items()
        }
        after = replace(after, windows=windows)
    return after, outputs


def _is_refusal(value: Any) -> bool:
    return isinstance(value, EdgeReply) and isinstance(value.body, Refused)


def test_a_refusal_that_costs_is_found() -> None:
    broken = with_fold(_costs)
    breaks(lambda log: laws.law_refusal_costs_nothing(broken, log), account_logs())
    breaks(lambda log: laws.law_limits_hold(broken, log, PLANS), account_logs())


def _forgets(kind: str) -> AccountFold:
    """A request is decided without looking at what was decided before."""

    def fold(state: Account | None, event: Event) -> tuple[Account | None, Outputs]:
        if state is not None and isinstance(event.body, Submit):
            state = replace(state, **{kind: {}})
        return ACCOUNTS.fold(state, event)

    return fold


@pytest.mark.parametrize("kind", ["past", "refusals"])
def test_a_repeat_decided_anew_is_found(kind: str) -> None:
    broken = with_fold(_forgets(kind))
    breaks(lambda log: laws.law_repeat_is_never_decided_anew(broken, log), account_logs(SHORT_MS))


def _takes_a_word_for_a_grant(state: Runs | None, event: Event) -> tuple[Runs | None, Outputs]:
    """A worker that computed without asking is believed."""
    if state is not None and isinstance(event.body, Finished):
        run = state.active.get(event.body.generation_id)
        if run is not None and run.phase is RunPhase.QUEUED:
            running = RunPhase.RUNNING
            owner, now_ms = event.body.incarnation, event.append_ms
            state = state.with_run(replace(run, phase=running, owner=owner, granted_at_ms=now_ms))
    return RUNS.fold(state, event)


def _grants_to_everybody(state: Runs | None, event: Event) -> tuple[Runs | None, Outputs]:
    """A second worker's claim of a granted epoch is granted, too."""
    if state is not None and isinstance(event.body, Claim):
        run = state.active.get(event.body.generation_id)
        if run is not None and run.owner is not None:
            state = state.with_run(replace(run, owner=event.body.incarnation))
    return RUNS.fold(state, event)


@pytest.mark.parametrize("fold", [_takes_a_word_for_a_grant, _grants_to_everybody])
def test_compute_before_the_grant_is_found(fold: RunsFold) -> None:
    broken = replace(RUNS, fold=fold)
    breaks(lambda log: laws.law_compute_only_after_a_grant(broken, log), run_logs(SHORT_MS))
