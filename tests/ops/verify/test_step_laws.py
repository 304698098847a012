"""The laws of a step: no healthy log breaks one, and each seeded bug of a fold breaks its own."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ops.log_scan import Read
from ops.verify.laws import LAWS, Broken
from ops.verify.refold import Step
from processors.admission.state import Account, Window
from processors.machine import Event, Machine, Outputs
from schemas.generated import types as t
from tests.ops.verify.world import MACHINES
from tests.processors.laws import Log, steps
from tests.processors.logs import Logs, account_logs, metering_logs, run_logs, worker_logs

LOGS: dict[str, Logs] = {
    "accounts": account_logs(),
    "runs": run_logs(),
    "workers": worker_logs(),
    "metering": metering_logs(),
}
READ = Read("t", 0, 0, 0, "k", None)


Told = tuple[Any, Outputs]
Bug = Callable[[Any, Event, Any, Outputs], Told]
"""(state before, event, state after, outputs) -> what a broken fold would have said of this step."""


def healthy(before: Any, event: Event, after: Any, outputs: Outputs) -> Told:
    return after, outputs


def broken(machine: Machine[Any], log: Log, bug: Bug = healthy) -> list[Broken]:
    found: list[Broken] = []
    for event, before, right, told in steps(machine, log):
        after, outputs = bug(before, event, right, told)
        step = Step(read=READ, event=event, before=before, after=after, outputs=outputs)
        found += LAWS[machine.name](step)
    return found


@pytest.mark.parametrize("name", LOGS)
@given(data=st.data())
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_healthy_log_breaks_a_law(name: str, data: st.DataObject) -> None:
    assert broken(MACHINES[name], data.draw(LOGS[name])) == []


def refusal_costs(before: Account | None, event: Event, after: Any, outputs: Outputs) -> Told:
    if after is None or not any(
        isinstance(getattr(o.value, "body", None), t.Refused) for o in outputs
    ):
        return after, outputs
    windows = {
        start_ms: Window(window.used + 1, window.held, window.end_ms)
        for start_ms, window in after.windows.items()
    }
    return replace(after, windows=windows), outputs


def limit_ignored(before: Any, event: Event, after: Any, outputs: Outputs) -> Told:
    def over(value: Any) -> Any:
        admitted = isinstance(value, t.AdmissionFact) and value.kind is t.AdmissionKind.ADMITTED
        return replace(value, limit=0) if admitted else value

    return after, tuple(replace(one, value=over(one.value)) for one in outputs)


def silent(kind: type) -> Bug:
    """One kind of record is not told."""

    def bug(before: Any, event: Event, after: Any, outputs: Outputs) -> Told:
        def said(value: Any) -> bool:
            return not isinstance(value, kind) and not isinstance(
                getattr(value, "body", None), kind
            )

        return after, tuple(one for one in outputs if said(one.value))

    return bug


def told_twice(kind: type) -> Bug:
    """One kind of record is told again."""

    def bug(before: Any, event: Event, after: Any, outputs: Outputs) -> Told:
        again = (one for one in outputs if isinstance(one.value, kind))
        return after, (*outputs, *again)

    return bug


def never_granted(before: Any, event: Event, after: Any, outputs: Outputs) -> Told:
    """A run is settled though nobody was granted it."""
    settles = [
        replace(
            one,
            value=replace(
                one.value,
                body=t.Settle(
                    generation_id=one.value.body.generation_id,
                    epoch=1,
                    usage=t.Usage(input_tokens=0, cached_input_tokens=0, output_tokens=0),
                ),
            ),
        )
        for one in outputs
        if isinstance(getattr(one.value, "body", None), t.Release)
    ]
    rest = [one for one in outputs if not isinstance(getattr(one.value, "body", None), t.Release)]
    return after, (*settles, *rest)


def ends_return(before: Any, event: Event, after: Any, outputs: Outputs) -> Told:
    """An ended run is in flight again."""
    if before is None or not before.active or not isinstance(event.body, t.Closed):
        return after, outputs
    (run, *_) = before.active.values()
    for generation_id in before.ended:
        return replace(after, active={**after.active, generation_id: run}), outputs
    return after, outputs


BUGS: dict[str, tuple[str, Bug, str]] = {
    "a refusal costs": ("accounts", refusal_costs, "used, held"),
    "a limit is ignored": ("accounts", limit_ignored, "used + held"),
    "a settlement is silent": ("accounts", silent(t.SettlementFact), "slot of"),
    "a settlement is told twice": ("accounts", told_twice(t.SettlementFact), "slot of"),
    "an end is silent": ("runs", silent(t.RunFact), "end of"),
    "an effect is silent": ("runs", silent(t.Release), "end of"),
    "tokens without a grant": ("runs", never_granted, "tokens of"),
    "an ended run returns": ("runs", ends_return, "phase of"),
    "a lease is lost in silence": ("workers", silent(t.LeaseExpired), "lease of"),
    "usage is silent": ("metering", silent(t.UsageFact), "usage facts"),
    "usage is told twice": ("metering", told_twice(t.UsageFact), "usage facts"),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_breaks_its_law(name: str) -> None:
    machine_name, bug, field = BUGS[name]
    found: list[str] = []

    @given(LOGS[machine_name])
    @settings(
        max_examples=80, derandomize=True, database=None, deadline=None, phases=(Phase.generate,)
    )
    def try_it(log: list[Event]) -> None:
        found.extend(one[0] for one in broken(MACHINES[machine_name], log, bug))

    try_it()
    assert any(field in one for one in found), set(found)
