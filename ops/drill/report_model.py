"""What a drill's report says, whatever it looks like: rows, promises with their values, figures. Pure.

Owns the words and the arithmetic; a promise without a measurement is never called kept.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from ops.drill.finding import Invariant
from ops.drill.result import CellResult

RESUME_S_MAX: Final = 20.0
RESUMED_MEDIAN: Final = "resumed_median_s"
"""After how long decisions come again with a full table, over some kills; a cell measures one machine."""
RESUMED_WORST: Final = "resumed_max_s"
ZOMBIE_ROWS: Final = frozenset({"4", "6"})


class State(StrEnum):
    """What became of a promise."""

    KEPT = "kept"
    BROKEN = "broken"
    OPEN = "not measured"


class Promise(msgspec.Struct, frozen=True):
    """One thing that must hold, and what was seen of it."""

    words: str
    state: State
    measured: str


class Figure(msgspec.Struct, frozen=True):
    """One measured name over all cells that measured it."""

    name: str
    count: int
    median: float
    worst: float
    cell: str
    """Where the worst was."""


class Row(msgspec.Struct, frozen=True):
    """One cell in the summary."""

    result: CellResult
    what: str
    requests: str
    """ok / refused / unknown."""

    @property
    def verdict(self) -> str:
        if self.result.passed:
            return "passed"
        return "FAILED" if self.result.bit else "did not bite"

    @property
    def took_s(self) -> float:
        return (self.result.ended_ms - self.result.began_ms) / 1_000


class Report(msgspec.Struct, frozen=True):
    """The whole."""

    at: str
    seed: int
    command: str
    machine: Mapping[str, str]
    rows: Sequence[Row]
    promises: Sequence[Promise]
    figures: Sequence[Figure]

    @property
    def passed(self) -> int:
        return sum(row.result.passed for row in self.rows)


def report_of(
    results: Sequence[CellResult],
    machine: Mapping[str, str],
    *,
    what: Mapping[str, str],
    everything: Iterable[str],
) -> Report:
    """`what` tells each cell's fault in words; `everything` names all cells there are."""
    began_ms = min((one.began_ms for one in results), default=0)
    names = [one.name for one in results]
    seed = results[0].seed if results else 0
    chosen = "" if {*names} == {*everything} else f" --cells {','.join(names)}"
    return Report(
        at=datetime.fromtimestamp(began_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        seed=seed,
        command=f"milena drill --seed {seed}{chosen}",
        machine=machine,
        rows=[Row(one, what.get(one.name, ""), _requests(one)) for one in results],
        promises=promises(results),
        figures=figures(results),
    )


def promises(results: Sequence[CellResult]) -> list[Promise]:
    """Every promise of the drill, in the order in which it is asked for."""
    whole = [one for one in results if one.looked_at.get("generations")]
    seen = {
        name: sum(one.looked_at.get(name, 0) for one in whole)
        for name in ("accepted", "generations", "streamed events")
    }
    cells = f"{len(whole)} cells"
    kept = [
        ("No accepted request is lost", Invariant.I1, f"{seen['accepted']} accepted"),
        ("Exactly one terminal for each generation", Invariant.I2, f"{seen['generations']} ended"),
        (
            "No double settlement, no quota overrun",
            Invariant.I3,
            f"{seen['generations']} holds",
        ),
        (
            "Streams without gap or repeat; what was rendered is what is stored",
            Invariant.I4,
            f"{seen['streamed events']} events",
        ),
        ("What an old epoch writes is dropped", Invariant.I5, f"{seen['generations']} generations"),
        (
            "fold(log) = table = counters = usage facts",
            Invariant.I6,
            "`milena verify` of each cell",
        ),
        (
            "All ends in time once the faults stop",
            Invariant.I7,
            f"{seen['generations']} generations",
        ),
        ("Nobody sees what is another's", Invariant.I8, f"{seen['generations']} generations"),
        ("Memory stays bounded", Invariant.I9, "processes before and after"),
        ("One key is one generation", Invariant.KEY, f"{seen['accepted']} accepted"),
    ]
    made = [_of_invariant(results, whole, *one, cells) for one in kept]
    return [*made, _zombies(results), _resumed(results), _bit(results)]


def figures(results: Sequence[CellResult]) -> list[Figure]:
    """Each measured name with its median and its worst."""
    told: dict[str, list[tuple[float, str]]] = {}
    for one in results:
        for name, value in one.measured.items():
            told.setdefault(name, []).append((value, one.name))
    return [
        Figure(name, len(values), statistics.median(v for v, _ in values), *max(values))
        for name, values in sorted(told.items())
    ]


def _of_invariant(
    results: Sequence[CellResult],
    whole: Sequence[CellResult],
    words: str,
    invariant: Invariant,
    evidence: str,
    cells: str,
) -> Promise:
    count = sum(one.invariant is invariant for result in results for one in result.findings)
    measured = f"{count} findings; {evidence}, {cells}"
    if count:
        return Promise(words, State.BROKEN, measured)
    return Promise(words, State.KEPT if whole else State.OPEN, measured)


def _zombies(results: Sequence[CellResult]) -> Promise:
    words = "A zombie changes nothing that its successor wrote"
    slept = [one for one in results if one.row in ZOMBIE_ROWS]
    return _all_of(words, slept, "cells with a process that slept past its session")


def _bit(results: Sequence[CellResult]) -> Promise:
    bit = sum(one.bit for one in results)
    state = State.OPEN if not results else State.KEPT if bit == len(results) else State.BROKEN
    return Promise("Every fault struck", state, f"{bit} of {len(results)} cells")


def _resumed(results: Sequence[CellResult]) -> Promise:
    words = f"Decisions resume within {RESUME_S_MAX:g} s of a kill -9 with 50,000 keys (median)"
    told = [one for one in results if RESUMED_MEDIAN in one.measured]
    if not told:
        return Promise(words, State.OPEN, "no cell of this run measured it")
    kept = all(one.measured[RESUMED_MEDIAN] <= RESUME_S_MAX for one in told)
    return Promise(words, State.KEPT if kept else State.BROKEN, "; ".join(map(_pause, told)))


def _pause(result: CellResult) -> str:
    machine = result.name.rpartition("/")[2]
    worst = result.measured.get(RESUMED_WORST)
    known = "" if worst is None else f" (worst {worst:.1f} s)"
    return f"{machine} {result.measured[RESUMED_MEDIAN]:.1f} s{known}"


def _all_of(words: str, results: Sequence[CellResult], kind: str) -> Promise:
    if not results:
        return Promise(words, State.OPEN, f"no {kind}")
    passed = sum(one.passed for one in results)
    state = State.KEPT if passed == len(results) else State.BROKEN
    return Promise(words, state, f"{passed} of {len(results)} {kind}")


def _requests(result: CellResult) -> str:
    told = result.looked_at
    if "ok" not in told:
        return "–"
    return f"{told['ok']} / {told['fail']} / {told['unknown']}"
