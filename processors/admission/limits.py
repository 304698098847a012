"""A caller's limits in the words of the API. Owns the names of limits; counts nothing itself."""

from typing import Final

from processors.admission.plans import window_end_ms
from processors.admission.state import Counters
from schemas.generated.types import Limit, LimitKind, PlanTier

MESSAGES: Final = "messages"
SLOTS: Final = "slots"


def messages(plan: PlanTier, counters: Counters) -> Limit:
    """The product quota of the counters' window; its reset is the window's end."""
    return Limit(
        name=MESSAGES,
        kind=LimitKind.FIXED_WINDOW,
        limit=plan.messages_max,
        used=counters.used,
        held=counters.held,
        remaining=max(0, plan.messages_max - counters.used - counters.held),
        window_s=plan.window_s,
        reset_at_ms=window_end_ms(counters.window_start_ms, plan),
    )


def slots(plan: PlanTier, counters: Counters) -> Limit:
    """Concurrent generations; a queued one counts."""
    return Limit(
        name=SLOTS,
        kind=LimitKind.SLOTS,
        limit=plan.slots_max,
        used=counters.slots_used,
        held=0,
        remaining=max(0, plan.slots_max - counters.slots_used),
    )


def both(plan: PlanTier, counters: Counters) -> tuple[Limit, ...]:
    return messages(plan, counters), slots(plan, counters)
