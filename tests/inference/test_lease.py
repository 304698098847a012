"""The self-fence as arithmetic: 8 s suspend, 10 s abort, and a silence nobody watched is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.lease import Lease, LeaseState, lease_state


@pytest.mark.parametrize(
    ("unacknowledged_s", "state"),
    [
        (0.0, LeaseState.LIVE),
        (7.99, LeaseState.LIVE),
        (8.0, LeaseState.SUSPENDED),
        (9.99, LeaseState.SUSPENDED),
        (10.0, LeaseState.LAPSED),
        (3_600.0, LeaseState.LAPSED),
    ],
)
def test_state_by_age(unacknowledged_s: float, state: LeaseState) -> None:
    assert lease_state(unacknowledged_s) is state


def test_a_stopped_process_learns_of_its_silence_at_the_first_acknowledgement() -> None:
    lease = Lease(100.0)
    lease.acknowledged(130.0, 130.01)  # nobody looked at the clock for 30 s
    assert lease.state(130.02) is LeaseState.LIVE
    assert lease.take_worst(130.02) is LeaseState.LAPSED
    assert lease.take_worst(130.03) is LeaseState.LIVE


def test_an_old_acknowledgement_does_not_take_back_a_newer_one() -> None:
    lease = Lease(0.0)
    lease.acknowledged(6.0, 6.1)
    lease.acknowledged(4.0, 6.2)
    assert lease.age_s(7.0) == 1.0


@given(st.lists(st.integers(min_value=1, max_value=120), max_size=30))
def test_every_silence_is_told_once_it_is_over(eighths: list[int]) -> None:
    lease, now_s = Lease(0.0), 0.0
    for pause_s in (eighth / 8 for eighth in eighths):  # exact in binary, also at the edges
        now_s += pause_s
        lease.acknowledged(now_s, now_s)
        assert lease.take_worst(now_s) is lease_state(pause_s)
