"""Broker time: what a broker last said plus what elapsed since, never running backwards."""

from hypothesis import given
from hypothesis import strategies as st

from topics.runtime.clock import BrokerClock, elapsed_s, wall_ms


def test_there_is_no_time_before_a_report() -> None:
    assert BrokerClock().now_ms(100.0) == 0


def test_time_goes_on_between_reports() -> None:
    clock = BrokerClock()
    clock.report(1_000_000, 10.0)
    assert clock.now_ms(12.5) == 1_002_500


@given(st.lists(st.tuples(st.integers(1, 10**12), st.integers(0, 1_000)), min_size=1))
def test_it_never_runs_backwards(reports: list[tuple[int, int]]) -> None:
    clock, at_s, last_ms = BrokerClock(), 0.0, 0
    for append_ms, later_s in reports:
        at_s += later_s
        clock.report(append_ms, at_s)
        assert clock.now_ms(at_s) >= last_ms
        last_ms = clock.now_ms(at_s)


def test_the_machines_own_clocks() -> None:
    assert elapsed_s() <= elapsed_s()
    assert wall_ms() > 1_700_000_000_000
