"""`MILENA_ACCOUNTS_…`: the local plans, until plans come from their own topic."""

import msgspec

from processors.admission.plans import Plans, plans_of
from schemas.generated.types import PlanTier, Tier


class AccountsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the local plans; the operator's own tier has those of the paid one."""

    messages_max_free: int = 40
    slots_max_free: int = 2
    messages_max_paid: int = 1_000
    slots_max_paid: int = 3
    window_s: int = 10_800

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")

    def plans(self) -> Plans:
        """The plans these settings say."""
        paid = PlanTier(
            tier=Tier.PAID,
            messages_max=self.messages_max_paid,
            window_s=self.window_s,
            slots_max=self.slots_max_paid,
        )
        free = PlanTier(
            tier=Tier.FREE,
            messages_max=self.messages_max_free,
            window_s=self.window_s,
            slots_max=self.slots_max_free,
        )
        return plans_of(free, paid, msgspec.structs.replace(paid, tier=Tier.OPERATOR))
