"""What each tier may do. Owns the arithmetic of windows; holds no account.

A plan is immutable and named by its content, so that a decision can say under which it was made.
"""

from hashlib import sha256
from typing import Final

import msgspec

from schemas.generated.types import PlanTier, Tier
from topics.topic import SECOND_MS

_VERSION_DIGITS: Final = 16
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


class Plans(msgspec.Struct, frozen=True):
    """The plan of every tier. Made by `plans_of`; refuses a tier told twice or none for `free`."""

    tiers: tuple[PlanTier, ...]
    version: str

    def of(self, tier: Tier) -> PlanTier:
        """The tier's plan; an unknown tier gets the free one, the tightest."""
        free = self.tiers[0]
        for plan in self.tiers:
            if plan.tier is tier:
                return plan
            if plan.tier is Tier.FREE:
                free = plan
        return free


def plans_of(*tiers: PlanTier) -> Plans:
    """Plans with their version.

    Raises:
        ValueError: a bound below 1, a tier told twice, or no free tier.
    """
    names = [plan.tier for plan in tiers]
    if len(set(names)) != len(names) or Tier.FREE not in names:
        raise ValueError("plans name each tier once, and the free one always")
    if any(min(plan.messages_max, plan.slots_max, plan.window_s) < 1 for plan in tiers):
        raise ValueError("messages_max, slots_max and window_s are at least 1")
    return Plans(tiers, plan_version(tiers))


def plan_version(tiers: tuple[PlanTier, ...]) -> str:
    """Content hash: the same tiers in the same order have the same version everywhere."""
    return sha256(_ENCODER.encode(tiers)).hexdigest()[:_VERSION_DIGITS]


def window_start_ms(now_ms: int, plan: PlanTier) -> int:
    """Start of the window that holds `now_ms`: UTC-aligned, integers only, no time zone."""
    return now_ms - now_ms % (plan.window_s * SECOND_MS)


def window_end_ms(start_ms: int, plan: PlanTier) -> int:
    """First millisecond after the window; what clients know as its reset."""
    return start_ms + plan.window_s * SECOND_MS
