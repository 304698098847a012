"""Settlement: how an admission's hold is consumed or given back, its tokens settled, its slot freed.

Pure. Each effect happens once: repeated, late or for a generation that is not active it is void and
tells nothing, so that a fact stands for a real change. Never admits.
"""

from processors.admission.plans import Plans
from processors.admission.state import (
    ENDING_OF_RELEASE,
    ENDING_OF_TERMINAL,
    Account,
    Admission,
    Ending,
)
from processors.machine import UNSTAMPED, Event, Output, Outputs
from schemas.generated.types import (
    Consume,
    Release,
    ReleaseReason,
    Settle,
    SettlementFact,
    SettlementKind,
    Terminal,
    Usage,
)
from topics.registry import FACTS_SETTLEMENT


def consume(plans: Plans, account: Account, event: Event, body: Consume) -> tuple[Account, Outputs]:
    """The hold is spent for good: a worker's claim was granted."""
    admission = account.active.get(body.generation_id)
    if admission is None or admission.consumed:
        return account, ()
    spent = account.consumed(body.generation_id)
    fact = _fact(plans, spent, event, body.generation_id, admission, SettlementKind.CONSUMED)
    return spent, (fact,)


def release(plans: Plans, account: Account, event: Event, body: Release) -> tuple[Account, Outputs]:
    """The hold is given back: it ended before any grant. A consumed one stays consumed."""
    admission = account.active.get(body.generation_id)
    if admission is None or admission.consumed:
        return account, ()
    ending = ENDING_OF_RELEASE.get(body.reason, Ending.RELEASED)
    freed = account.ended(body.generation_id, ending, event.append_ms)
    fact = _fact(
        plans,
        freed,
        event,
        body.generation_id,
        admission,
        SettlementKind.RELEASED,
        release_reason=body.reason,
    )
    return freed, (fact,)


def settle(plans: Plans, account: Account, event: Event, body: Settle) -> tuple[Account, Outputs]:
    """A granted generation ended. Where its `Consume` did not come before, this books it as well."""
    account, consumed = consume(
        plans, account, event, Consume(generation_id=body.generation_id, epoch=body.epoch)
    )
    admission = account.active.get(body.generation_id)
    if admission is None:
        return account, ()
    ending = ENDING_OF_TERMINAL[body.terminal]
    freed = account.ended(body.generation_id, ending, event.append_ms)
    fact = _fact(
        plans,
        freed,
        event,
        body.generation_id,
        admission,
        SettlementKind.SETTLED,
        terminal=body.terminal,
        usage=body.usage,
    )
    return freed, (*consumed, fact)


def _fact(
    plans: Plans,
    after: Account,
    event: Event,
    generation_id: str,
    admission: Admission,
    kind: SettlementKind,
    release_reason: ReleaseReason | None = None,
    terminal: Terminal | None = None,
    usage: Usage | None = None,
) -> Output:
    start_ms = admission.request.counters.window_start_ms
    window = after.windows[start_ms]
    fact = SettlementFact(
        event_id=UNSTAMPED,
        kind=kind,
        at=event.append_ms,
        user_id=event.key,
        generation_id=generation_id,
        release_reason=release_reason,
        terminal=terminal,
        window_start_at=start_ms,
        limit=plans.of(admission.tier).messages_max,
        used=window.used,
        held=window.held,
        slots_used=len(after.active),
        usage=usage,
    )
    return Output(topic=FACTS_SETTLEMENT, key=event.key, value=fact)
