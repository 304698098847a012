"""The benchmark's arithmetic: hops add up to what the client measured, quantiles are those of the data."""

from hypothesis import given
from hypothesis import strategies as st

from ops.bench.client import Timed
from ops.bench.cpu import difference
from ops.bench.hops import HOPS, Marks, quantile, spans, table


def _timed(posted: float, first: float) -> Timed:
    return Timed("gen_1", posted, posted + 1, first, first + 900, 40)


def test_hops_add_up_to_the_clients_own_clock() -> None:
    marks = Marks(submit_ms=1_003, start_ms=1_006, step_ms=1_009, claim_ms=1_011, granted_ms=1_014)
    parts = spans(_timed(1_000.5, 1_020.25), marks)
    assert len(parts) == len(HOPS)
    assert sum(parts) == 1_020.25 - 1_000.5
    rows = table([_timed(1_000.5, 1_020.25)], {"gen_1": marks})
    assert [row.hop for row in rows] == [*(hop for hop, _ in HOPS), "sum"]
    assert rows[-1].p50_ms == 19.75


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_lies_within_the_data(values: list[float], share: float) -> None:
    ordered = sorted(values)
    slack = 1e-6
    assert ordered[0] - slack <= quantile(ordered, share) <= ordered[-1] + slack


def test_a_restarted_part_is_counted_from_its_start() -> None:
    assert difference({"edge": 9.0, "runs": 1.0}, {"edge": 2.0, "runs": 4.0}) == {
        "edge": 2.0,
        "runs": 3.0,
    }
