"""The table of cells: every row that exists has one, names are unique, and a fault that missed fails."""

import re
from pathlib import Path

import pytest

from ops.cli.console import CommandError
from ops.cli.drill import outcome_lines, simulation, wanted
from ops.drill.campaign import _may_share
from ops.drill.cell import Needs
from ops.drill.cells import BY_NAME, CELLS, selection
from ops.drill.finding import Finding, Invariant
from ops.drill.ground import OURS
from ops.drill.lag import MACHINES
from ops.drill.result import Bite, CellResult, Fault

ROWS = {*map(str, range(1, 10)), "11", "12", "15", "16", "18", "19", "P1", "P2", "P3"}


def result(bites: list[Bite], findings: list[Finding] | None = None, error: str = "") -> CellResult:
    return CellResult(
        name="edge-kill",
        row="1",
        seed=1,
        began_ms=0,
        healed_ms=5_000,
        ended_ms=9_000,
        faults=[Fault(1_000, "kill -9", "edge")],
        bites=bites,
        findings=findings or [],
        looked_at={"accepted": 7},
        error=error,
    )


def test_every_row_has_a_cell() -> None:
    assert {cell.row for cell in CELLS} >= ROWS


def test_names_are_unique_and_can_be_files_and_arguments() -> None:
    assert len(BY_NAME) == len(CELLS)
    assert all(re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)?", cell.name) for cell in CELLS)


def test_every_part_is_restarted_under_load() -> None:
    parts = {cell.name.removeprefix("restart/") for cell in CELLS if cell.row == "P1"}
    assert parts >= {*OURS, "redis", "cassandra", "broker-away"}


def test_a_seed_chooses_among_short_cells_that_any_stack_can_bear() -> None:
    chosen = selection(3, 4)
    assert [cell.name for cell in chosen] == [cell.name for cell in selection(3, 4)]
    assert len({cell.name for cell in chosen}) == 4
    assert {tuple(c.name for c in selection(seed, 4)) for seed in range(9)} > {
        tuple(c.name for c in chosen)
    }
    assert all(cell.needs is Needs.STACK and cell.judged for cell in CELLS if cell.short)


def test_a_fault_that_did_not_strike_fails_its_cell() -> None:
    struck, missed = Bite("pid changed", True), Bite("answers were read", False, "0")
    assert result([struck]).passed
    assert not result([struck, missed]).passed
    assert not result([]).passed, "nothing was looked for"
    assert not result([struck], [Finding(Invariant.I1, "lost")]).passed
    assert not result([struck], error="the fault was not over").passed


def test_what_a_person_reads_names_the_missing_sign_and_the_finding() -> None:
    told = "\n".join(outcome_lines(result([Bite("pid changed", False, "7 → 7")])))
    assert "FAILED" in told
    assert "did not bite: pid changed 7 → 7" in told
    found = [Finding(Invariant.I1, "never ended", "gen_1")]
    told = "\n".join(outcome_lines(result([Bite("pid changed", True)], found)))
    assert "I1 no accepted loss: never ended gen_1" in told
    assert "nothing was looked for" in "\n".join(outcome_lines(result([])))


def test_cells_share_a_stack_of_their_kind_and_never_one_that_may_be_spoilt() -> None:
    plain, proxied = BY_NAME["edge-kill"], BY_NAME["accounts-six-points"]
    own, other = BY_NAME["topics-missing"], BY_NAME["topics-wrong-size"]
    assert _may_share(plain, BY_NAME["runs-kill"])
    assert not _may_share(plain, proxied)
    assert _may_share(own, own)
    assert not _may_share(own, other)
    assert not _may_share(plain, own)
    assert not _may_share(BY_NAME["resume/runs"], BY_NAME["resume/accounts"])


def test_a_cell_acts_or_measures() -> None:
    assert all((cell.act is None) is not (cell.measure is None) for cell in CELLS)
    measured = {cell.name for cell in CELLS if cell.measure is not None}
    assert measured == {f"resume/{machine}" for machine in MACHINES}


def test_unknown_cells_are_refused_by_name() -> None:
    assert [cell.name for cell in wanted("runs-kill, edge-kill")] == ["runs-kill", "edge-kill"]
    with pytest.raises(CommandError, match="no cell nonsense"):
        wanted("edge-kill,nonsense")


def test_without_a_checkout_the_simulation_says_so(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="has none"):
        simulation(tmp_path, 1)
