"""Plans, their windows and their settings."""

import pytest

from processors.admission.plans import plan_version, plans_of, window_end_ms, window_start_ms
from processors.admission.settings import AccountsSettings
from schemas.generated.types import PlanTier, Tier
from topics.errors import SettingsError
from topics.runtime.settings import read

FREE = PlanTier(tier=Tier.FREE, messages_max=40, window_s=10_800, slots_max=2)


@pytest.mark.parametrize(
    ("now_ms", "start_ms"),
    [
        (0, 0),
        (10_799_999, 0),
        (10_800_000, 10_800_000),
        # 2026-11-06 16:12:03.456 UTC is in the window that the documents' example resets at 18:00.
        (1_793_981_523_456, 1_793_977_200_000),
    ],
)
def test_windows_are_aligned_to_utc(now_ms: int, start_ms: int) -> None:
    assert window_start_ms(now_ms, FREE) == start_ms
    assert window_end_ms(start_ms, FREE) == start_ms + 10_800_000


def test_the_local_plans_are_the_documents_example() -> None:
    plans = read(AccountsSettings, "ACCOUNTS", {}).plans()
    assert plans.of(Tier.FREE) == plans.of(Tier.UNKNOWN) == FREE
    for tier in (Tier.PAID, Tier.OPERATOR):
        plan = plans.of(tier)
        assert (plan.messages_max, plan.window_s, plan.slots_max) == (1_000, 10_800, 3)


def test_settings_move_the_bounds() -> None:
    env = {
        "MILENA_ACCOUNTS_MESSAGES_MAX_FREE": "3",
        "MILENA_ACCOUNTS_SLOTS_MAX_PAID": "9",
        "MILENA_ACCOUNTS_WINDOW_S": "60",
    }
    plans = read(AccountsSettings, "ACCOUNTS", env).plans()
    assert plans.of(Tier.FREE).messages_max == 3
    assert plans.of(Tier.OPERATOR).slots_max == 9
    assert plans.of(Tier.PAID).window_s == 60


def test_a_bound_below_one_refuses_to_start() -> None:
    with pytest.raises(SettingsError, match="slots_max_free"):
        read(AccountsSettings, "ACCOUNTS", {"MILENA_ACCOUNTS_SLOTS_MAX_FREE": "0"})


def test_a_version_names_the_content() -> None:
    other = PlanTier(tier=Tier.FREE, messages_max=41, window_s=10_800, slots_max=2)
    assert plan_version((FREE,)) == plans_of(FREE).version
    assert plan_version((FREE,)) != plan_version((other,))


def test_plans_refuse_what_no_fold_could_use() -> None:
    for tiers in ((), (FREE, FREE)):
        with pytest.raises(ValueError, match="free"):
            plans_of(*tiers)
    with pytest.raises(ValueError, match="at least 1"):
        plans_of(PlanTier(tier=Tier.FREE, messages_max=0, window_s=1, slots_max=1))
