"""Runs one cell: quiet, load, faults, heal, wait until all has ended, look, check.

Owns that order and its deadlines. What is done is the cell's, what is wrong the checker's; only the waiting
that came to nothing is found here.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from ops.drill import history as histories
from ops.drill.cell import Act, Cell
from ops.drill.check import Verdict, check
from ops.drill.evidence import Seen
from ops.drill.finding import Finding, Invariant
from ops.drill.gather import gather, memory_of
from ops.drill.ground import Ground
from ops.drill.load import Load
from ops.drill.nemesis import Nemesis
from ops.drill.result import CellResult, Sample
from ops.stack.fresh import DidNotCome
from schemas.generated.types import Tier
from topics.runtime.clock import wall_ms

QUIET_S_MAX: Final = 60.0
WARM: Final = 3
"""Requests that must have ended before anything is hurt."""
AFTER_S: Final = 2.0
"""The load goes on for so long once all serves again."""
SAMPLE_S: Final = 1.0


async def run(cell: Cell, ground: Ground, seed: int, out: Path) -> CellResult:
    """One cell on a stack that serves. Its history is left in `out`."""
    assert cell.act is not None, "a cell that measures needs no ground"
    await ground.serving()
    await ground.caught_up(QUIET_S_MAX)
    people = await ground.people(cell.shape.steady, Tier.PAID)
    people += await ground.people(cell.shape.hasty, Tier.FREE)
    before = await asyncio.to_thread(memory_of, ground)
    began_ms = wall_ms()
    path = out / f"{cell.name.replace('/', '_')}.jsonl"
    head = histories.Head(cell=cell.name, seed=seed, began_ms=began_ms)
    with histories.History(path, head, wall_ms) as history:
        load = Load(cell.shape, people, ground.edges, ground.http, history, seed, wall_ms)
        nemesis = Nemesis(ground, load, seed)
        samples: list[Sample] = []
        sampling = asyncio.create_task(_sample(ground, load, samples))
        try:
            struck = _strike(cell, cell.act, ground, load, nemesis)
            healed_ms, error, late = await struck
        finally:
            sampling.cancel()
            await asyncio.gather(sampling, return_exceptions=True)
            await load.give_up()  # nobody writes into a closed history
    _, seen = histories.read(path)
    verdict = Verdict(findings=[], looked_at={"calls": len(seen)})
    if cell.judged:
        evidence = await gather(
            ground,
            seen,
            began_ms=began_ms,
            healed_ms=healed_ms,
            answer_s_max=cell.shape.answer_s_max,
            before=before,
        )
        verdict = await asyncio.to_thread(check, evidence)
    return CellResult(
        name=cell.name,
        row=cell.row,
        seed=seed,
        began_ms=began_ms,
        healed_ms=healed_ms,
        ended_ms=wall_ms(),
        faults=nemesis.faults,
        bites=nemesis.bites,
        findings=[*nemesis.findings, *late, *verdict.findings],
        looked_at=verdict.looked_at,
        samples=samples,
        measured={**nemesis.measured, **_times(seen, healed_ms)},
        error=error,
    )


async def _strike(
    cell: Cell, act: Act, ground: Ground, load: Load, nemesis: Nemesis
) -> tuple[int, str, list[Finding]]:
    """Load, fault, heal, end. Returns when it healed, why the cell broke off, what never ended."""
    error = ""
    try:
        if cell.judged:
            load.start()
            await load.until_ended(WARM)
        async with asyncio.timeout(cell.act_s_max):
            await act(nemesis)
    except TimeoutError:
        error = f"the fault was not over after {cell.act_s_max:g} s"
    except DidNotCome as missing:
        error = str(missing)
    finally:
        await nemesis.heal()
    healed_ms = wall_ms()
    found: list[Finding] = []
    try:
        await ground.serving(cell.heal_s_max)
        if cell.judged:
            await load.until_served(healed_ms, cell.heal_s_max)
            await asyncio.sleep(AFTER_S)
    except (DidNotCome, TimeoutError) as missing:
        what = f"nothing is served {cell.heal_s_max:g} s after the heal"
        found.append(Finding(Invariant.I7, f"{what} {missing}".rstrip()))
    load.ask_to_stop()
    waiting = await load.drained(cell.heal_s_max)
    if waiting:
        what = f"{waiting} people wait for an end {cell.heal_s_max:g} s after the heal"
        found.append(Finding(Invariant.I7, what))
    left = await ground.caught_up(cell.heal_s_max)
    for machine, count in left.items():
        words = "nobody tells its lag" if count < 0 else f"{count} records behind"
        found.append(Finding(Invariant.I7, f"{machine} does not catch up: {words}"))
    return healed_ms, error, found


async def _sample(ground: Ground, load: Load, samples: list[Sample]) -> None:
    """A look each second, for the picture."""
    before = 0
    while True:
        lag = await asyncio.to_thread(ground.lags.now)
        ended = load.ended
        samples.append(Sample(wall_ms(), ended - before, lag))
        before = ended
        await asyncio.sleep(SAMPLE_S)


def _times(seen: list[Seen], healed_ms: int) -> dict[str, float]:
    """How long the first whole answer after the heal took to come."""
    ends = [
        one.ended_ms
        for one in seen
        if one.began_ms >= healed_ms and one.status == 200 and one.shown
    ]
    return {"served_after_s": round((min(ends) - healed_ms) / 1_000, 2)} if ends else {}
