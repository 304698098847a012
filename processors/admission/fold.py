"""Admission: one `Submit` decided once, and `Query` answered. Pure; knows no way to end a hold.

The order of decision: a request id already decided gets the same outputs again; a known identity its
generation and state, or a conflict; then room in the account, slots, and the product quota. A refusal
changes no counter.
"""

from typing import Final

from processors.admission import limits
from processors.admission.plans import Plans, window_end_ms, window_start_ms
from processors.admission.state import (
    IDENTITIES_MAX,
    TERMINAL_OF_ENDING,
    Account,
    Admission,
    Counters,
    Ending,
    Known,
    Refusal,
    Request,
    Window,
)
from processors.machine import UNSTAMPED, Event, Output, Outputs
from processors.outputs import mark, reply, to_runs
from schemas.generated.types import (
    AdmissionFact,
    AdmissionKind,
    Api,
    Code,
    Limits,
    PlanTier,
    Query,
    Refused,
    Repeated,
    Start,
    Submit,
)
from topics.errors import NotSupported
from topics.registry import FACTS_ADMISSION

SLOT_RETRY_MS: Final = 1_000
"""Least wait before a retry where a slot was missing; a slot comes back with the end of a run."""


def submit(plans: Plans, account: Account, event: Event, body: Submit) -> tuple[Account, Outputs]:
    """Decides a request, or answers as it was decided."""
    request_mark = mark(body.request_id)
    known = account.find(body.identity)
    if known is not None and _is_same(known, request_mark, body):
        return account, _admitted(plans, event, body, known.request.counters)
    refusal = account.refusals.get(request_mark)
    if refusal is not None and (refusal.identity, refusal.fingerprint) == (
        body.identity,
        body.fingerprint,
    ):
        return account, _refused(plans, event, body, refusal, refusal.counters.at_ms)
    replaced = account.replaced.get(request_mark)
    if replaced is not None and replaced.generation_id == body.spec.generation_id:
        return account, _admitted(plans, event, body, replaced.request.counters)
    if known is not None:
        if known.request.fingerprint != body.fingerprint:
            return account, _repeated(plans, account, event, body, known, same=False)
        if known.ending is not Ending.RELEASED:
            return account, _repeated(plans, account, event, body, known, same=True)
    bound = account.bound_refusal(body.identity)
    if bound is not None:
        if bound.fingerprint != body.fingerprint:
            return account, _conflict(plans, account, event, body)
        return account, _refused(plans, event, body, bound, event.append_ms)
    if body.spec.generation_id in account.active:
        # A generation is minted for one request. Taking it over would lose the other one's hold.
        return account, _conflict(plans, account, event, body)
    return _decide(plans, account, event, body, request_mark)


def query(plans: Plans, account: Account, event: Event, body: Query) -> Outputs:
    """The caller's limits as they stand.

    Raises:
        NotSupported: a generation is asked for, which this machine does not know.
    """
    if body.generation_id is not None:
        raise NotSupported("accounts knows limits; runs knows generations")
    plan = plans.of(body.tier)
    told = Limits(limits=limits.both(plan, counters_at(account, plan, event.append_ms)))
    return (reply(body.reply_partition, body.request_id, told),)


def counters_at(account: Account, plan: PlanTier, now_ms: int) -> Counters:
    """The account as it stands in the window of `now_ms`."""
    start_ms = window_start_ms(now_ms, plan)
    window = account.windows.get(start_ms)
    used, held = (0, 0) if window is None else (window.used, window.held)
    return Counters(now_ms, start_ms, used, held, len(account.active))


def _is_same(known: Known, request_mark: bytes, body: Submit) -> bool:
    return (
        known.request.mark == request_mark
        and known.request.fingerprint == body.fingerprint
        and known.generation_id == body.spec.generation_id
    )


def _decide(
    plans: Plans, account: Account, event: Event, body: Submit, request_mark: bytes
) -> tuple[Account, Outputs]:
    plan = plans.of(body.spec.tier)
    before = counters_at(account, plan, event.append_ms)
    code = _refusal_of(plan, account, before)
    if code is not None:
        bound = code is Code.QUOTA_EXHAUSTED and body.spec.api is not Api.CONVERSATIONS
        refusal = Refusal(body.identity, body.fingerprint, code, bound, before)
        outputs = _refused(plans, event, body, refusal, event.append_ms)
        return account.with_refusal(request_mark, refusal), outputs
    start_ms = before.window_start_ms
    after = Counters(event.append_ms, start_ms, before.used, before.held + 1, before.slots_used + 1)
    request = Request(request_mark, body.fingerprint, after)
    admission = Admission(body.identity, request, body.spec.tier, consumed=False)
    window = Window(after.used, after.held, window_end_ms(start_ms, plan))
    admitted = account.with_admission(body.spec.generation_id, admission, start_ms, window)
    return admitted, _admitted(plans, event, body, after)


def _refusal_of(plan: PlanTier, account: Account, counters: Counters) -> Code | None:
    if len(account.active) + len(account.past) >= IDENTITIES_MAX:
        return Code.QUOTA_SERVICE_UNAVAILABLE
    if counters.slots_used >= plan.slots_max:
        return Code.CONCURRENCY_LIMITED
    if counters.used + counters.held >= plan.messages_max:
        return Code.QUOTA_EXHAUSTED
    return None


def _admitted(plans: Plans, event: Event, body: Submit, counters: Counters) -> Outputs:
    plan = plans.of(body.spec.tier)
    start = Start(
        request_id=body.request_id,
        user_id=event.key,
        reply_partition=body.reply_partition,
        submitted_at_ms=counters.at_ms,
        route_hint=body.route_hint,
        pressure_permille=body.pressure_permille,
        limits=limits.both(plan, counters),
        spec=body.spec,
    )
    generation_id = body.spec.generation_id
    return (
        to_runs(body.spec.runs_key, start),
        _fact(plans, event, body, counters, AdmissionKind.ADMITTED, generation_id),
    )


def _refused(
    plans: Plans, event: Event, body: Submit, refusal: Refusal, asked_at_ms: int
) -> Outputs:
    """The refusal as it was decided; only the wait is told from the moment it was asked."""
    plan = plans.of(body.spec.tier)
    counters = refusal.counters
    limit, retry_after_ms = None, None
    if refusal.code is Code.QUOTA_EXHAUSTED:
        limit = limits.messages(plan, counters)
        wait_ms = window_end_ms(counters.window_start_ms, plan) - asked_at_ms
        retry_after_ms = wait_ms if wait_ms > 0 else None
    elif refusal.code is Code.CONCURRENCY_LIMITED:
        limit = limits.slots(plan, counters)
        retry_after_ms = SLOT_RETRY_MS
    refused = Refused(
        code=refusal.code,
        retryable=refusal.code is not Code.QUOTA_EXHAUSTED,
        retry_after_ms=retry_after_ms,
        limit=limit,
    )
    generation_id = body.spec.generation_id
    return (
        reply(body.reply_partition, body.request_id, refused),
        _fact(plans, event, body, counters, AdmissionKind.REFUSED, generation_id, refusal.code),
    )


def _repeated(
    plans: Plans, account: Account, event: Event, body: Submit, known: Known, *, same: bool
) -> Outputs:
    repeated = Repeated(
        generation_id=known.generation_id,
        same=same,
        running=known.ending is None,
        terminal=None if known.ending is None else TERMINAL_OF_ENDING[known.ending],
    )
    kind = AdmissionKind.REPEATED if same else AdmissionKind.CONFLICT
    code = None if same else Code.IDEMPOTENCY_CONFLICT
    counters = counters_at(account, plans.of(body.spec.tier), event.append_ms)
    return (
        reply(body.reply_partition, body.request_id, repeated),
        _fact(plans, event, body, counters, kind, known.generation_id, code),
    )


def _conflict(plans: Plans, account: Account, event: Event, body: Submit) -> Outputs:
    """The key means another request, and no generation of this caller can be named for it."""
    refused = Refused(code=Code.IDEMPOTENCY_CONFLICT, retryable=False)
    counters = counters_at(account, plans.of(body.spec.tier), event.append_ms)
    kind, generation_id = AdmissionKind.CONFLICT, body.spec.generation_id
    return (
        reply(body.reply_partition, body.request_id, refused),
        _fact(plans, event, body, counters, kind, generation_id, refused.code),
    )


def _fact(
    plans: Plans,
    event: Event,
    body: Submit,
    counters: Counters,
    kind: AdmissionKind,
    generation_id: str,
    code: Code | None = None,
) -> Output:
    fact = AdmissionFact(
        event_id=UNSTAMPED,
        kind=kind,
        at=counters.at_ms,
        user_id=event.key,
        request_id=body.request_id,
        generation_id=generation_id,
        tier=body.spec.tier,
        api=body.spec.api,
        model=body.spec.model,
        code=code,
        window_start_at=counters.window_start_ms,
        limit=plans.of(body.spec.tier).messages_max,
        used=counters.used,
        held=counters.held,
        slots_used=counters.slots_used,
        plan_version=plans.version,
    )
    return Output(topic=FACTS_ADMISSION, key=event.key, value=fact)
