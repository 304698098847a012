"""What a machine may do in one step, judged from the state before and after and from what it told. Pure.

Owns the laws of counters, ends and grants as they must hold at every prefix of the log. Needs no memory
between steps, so that a log of any length can be judged; knows how no decision is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from ops.verify.refold import Step
from processors.admission.state import Account, Admission
from processors.machine import Outputs
from processors.outputs import mark
from processors.runs.state import TRANSITIONS, Runs
from schemas.generated import types as t

Broken = tuple[str, str, str]
"""(field, what the law wants, what is)."""
Law = Callable[[Step], Iterator[Broken]]


def accounts(step: Step) -> Iterator[Broken]:
    """`used + held <= limit` where something is admitted; counters move by what is told, and only so;
    a hold ends once; a slot is taken from the admission to the end."""
    before, after = step.before or Account(), step.after or Account()
    admitted = _told(step.outputs, t.AdmissionFact, lambda f: f.kind is t.AdmissionKind.ADMITTED)
    settled = _told(step.outputs, t.SettlementFact)
    fresh = [f for f in admitted if f.generation_id not in _known(before)]
    for fact in fresh:
        if not fact.emergency and fact.used + fact.held > fact.limit:
            yield "used + held", f"at most {fact.limit}", f"{fact.used} + {fact.held}"
    yield from _counters(before, after, fresh, settled)
    yield from _holds(before, after, settled)


def _counters(
    before: Account,
    after: Account,
    fresh: list[t.AdmissionFact],
    settled: list[t.SettlementFact],
) -> Iterator[Broken]:
    """Windows move by the facts told, and only so."""
    held: Counter[int | None] = Counter(fact.window_start_at for fact in fresh)
    used: Counter[int | None] = Counter()
    for fact in settled:
        held[fact.window_start_at] -= fact.kind is not t.SettlementKind.SETTLED
        used[fact.window_start_at] += fact.kind is t.SettlementKind.CONSUMED
    for start_ms, window in after.windows.items():
        was = before.windows.get(start_ms)
        wanted = (
            (was.used if was else 0) + used[start_ms],
            (was.held if was else 0) + held[start_ms],
        )
        if (window.used, window.held) != wanted:
            field = f"windows[{start_ms}] used, held"
            yield field, f"{wanted[0]}, {wanted[1]}", f"{window.used}, {window.held}"
        if min(window.used, window.held) < 0:
            yield f"windows[{start_ms}]", "not below 0", f"{window.used}, {window.held}"


def _holds(before: Account, after: Account, settled: list[t.SettlementFact]) -> Iterator[Broken]:
    ends: Counter[str] = Counter()
    for fact in settled:
        name = f"hold of {fact.generation_id}"
        admission: Admission | None = before.active.get(fact.generation_id)
        if admission is None:
            yield name, "ends once", f"{fact.kind.value} though it is not held"
            continue
        if fact.kind is t.SettlementKind.SETTLED:
            ends[fact.generation_id] += 1
        elif admission.consumed:
            yield name, "consumed or released, once", f"{fact.kind.value} again"
        elif fact.kind is t.SettlementKind.RELEASED:
            ends[fact.generation_id] += 1
    for generation_id in before.active:
        wanted = int(generation_id not in after.active)
        if ends[generation_id] != wanted:
            yield f"slot of {generation_id}", f"{wanted} ends told", str(ends[generation_id])


def runs(step: Step) -> Iterator[Broken]:
    """A run moves as the table of transitions says, ends once and says so once; tokens are settled and
    compute granted only for a run in flight; every `Ended` of it says the same."""
    before, after = step.before or Runs(), step.after or Runs()
    body = type(step.event.body).__name__ if step.event else ""
    moved = {*before.active, *before.ended, *before.closed, *after.active, *after.ended}
    for generation_id in moved:
        was, now = before.phase(generation_id), after.phase(generation_id)
        if was is not now and (was, body, now) not in TRANSITIONS:
            yield f"phase of {generation_id}", f"{was.value} after {body}", now.value
    yield from _ends(before, after, step.outputs)
    yield from _grants(before, step.outputs)
    for order in _told(step.outputs, t.StreamControl, lambda o: isinstance(o.body, t.Ended)):
        past = before.past(order.generation_id)
        if past is not None and past.terminal is not order.body.terminal:
            field = f"terminal of {order.generation_id}"
            yield field, past.terminal.value, order.body.terminal.value


def _ends(before: Runs, after: Runs, outputs: Outputs) -> Iterator[Broken]:
    ended = Counter(
        fact.generation_id
        for fact in _told(outputs, t.RunFact, lambda f: f.kind is t.RunKind.ENDED)
    )
    effects: Counter[str] = Counter(
        body.generation_id
        for body in _bodies(outputs, t.Settle, t.Release)
        if body.generation_id in before.active
    )
    for generation_id in {*before.active, *ended}:
        left = generation_id in before.active and generation_id not in after.active
        told = (ended[generation_id], effects[generation_id])
        if told != (left, left):
            wanted = f"{int(left)} told, {int(left)} effects"
            yield f"end of {generation_id}", wanted, f"{told[0]} told, {told[1]} effects"


def _grants(before: Runs, outputs: Outputs) -> Iterator[Broken]:
    for order in _told(outputs, t.WorkerControl, lambda o: isinstance(o.body, t.Granted)):
        if order.generation_id not in before.active:
            yield f"grant of {order.generation_id}", "a run in flight", "none"
    for body in _bodies(outputs, t.Settle):
        run = before.active.get(body.generation_id)
        if run is None or run.owner is None:
            yield f"tokens of {body.generation_id}", "a grant before", "none"


def metering(step: Step) -> Iterator[Broken]:
    """One usage fact for each epoch and incarnation."""
    told = step.before.told if step.before else ()
    facts = _told(step.outputs, t.UsageFact)
    body = step.event.body if step.event else None
    if isinstance(body, t.Used):
        wanted = int(mark(str(body.epoch), body.incarnation) not in told)
        if len(facts) != wanted:
            yield f"usage facts of epoch {body.epoch}", str(wanted), str(len(facts))
    elif facts:
        yield "usage facts", "0", str(len(facts))


def workers(step: Step) -> Iterator[Broken]:
    """A lease expires only where one was held, and every one that an incarnation's end takes does."""
    lost = {body.generation_id for body in _bodies(step.outputs, t.LeaseExpired)}
    owned = set(step.before.owned if step.before else ())
    body = step.event.body if step.event else None
    granted = {body.generation_id} if isinstance(body, t.Owned) else set()
    for generation_id in lost - owned - granted:
        yield f"lease of {generation_id}", "held", "expired without being held"
    over = step.after is not None and step.after.over and not (step.before and step.before.over)
    for generation_id in (owned - lost) if over else ():
        yield f"lease of {generation_id}", "expires with its incarnation", "does not"


LAWS: Final[dict[str, Law]] = {
    "accounts": accounts,
    "runs": runs,
    "metering": metering,
    "workers": workers,
}


def _told(outputs: Outputs, kind: type, wanted: Callable[[Any], bool] = bool) -> list[Any]:
    found = (output.value for output in outputs)
    return [value for value in found if isinstance(value, kind) and wanted(value)]


def _bodies(outputs: Outputs, *kinds: type) -> list[Any]:
    found = (getattr(output.value, "body", None) for output in outputs)
    return [body for body in found if isinstance(body, kinds)]


def _known(account: Account) -> set[str]:
    """Generations admitted before, so that a repeat's fact is not a new admission."""
    past = [*account.past.values(), *account.replaced.values()]
    return {*account.active, *(one.generation_id for one in past)}
