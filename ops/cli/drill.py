"""`milena drill`: faults on a real stack of its own under load, and whether anything was lost.

Owns the choice of cells and what is printed. Exit status 0: every cell's fault struck and nothing was
found; 1: something was.
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ops.cli.console import CommandError, ExitCode, Progress, columns, note, working

if TYPE_CHECKING:
    from ops.drill.cell import Cell
    from ops.drill.result import CellResult

SHORT_CELLS = 4
SIMULATION = Path("tests/simulation/__main__.py")

Chosen = Annotated[str, typer.Option("--cells", metavar="A,B", help="Only these; see --list.")]
Seed = Annotated[int | None, typer.Option("--seed", help="Of every choice; drawn if left out.")]
Short = Annotated[bool, typer.Option("--short", help=f"{SHORT_CELLS} short cells, by the seed.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of histories, results and report.")]
Listed = Annotated[bool, typer.Option("--list", help="Show every cell and do nothing.")]
Simulate = Annotated[bool, typer.Option("--simulate", help="The seeded simulation instead.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Of the simulation.")]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("drill")(drill)


def drill(
    cells: Chosen = "",
    seed: Seed = None,
    short: Short = False,
    out: Out = Path("drill-out"),
    listed: Listed = False,
    simulate: Simulate = False,
    seeds: Seeds = 200,
) -> None:
    """Strike a fresh stack with faults under load, and check that nothing was lost."""
    if simulate:
        raise typer.Exit(simulation(Path.cwd(), seeds))
    from ops.drill.campaign import campaign
    from ops.drill.cells import CELLS, selection
    from ops.drill.report import HTML, write

    if listed:
        rows = [("cell", "row", "needs", "what")]
        rows += [(cell.name, cell.row, cell.needs.value, cell.what) for cell in CELLS]
        print("\n".join(columns(rows)))
        return
    chosen_seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    chosen = wanted(cells) if cells else selection(chosen_seed, SHORT_CELLS) if short else CELLS
    note(f"{len(chosen)} cells, seed {chosen_seed}")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="milena-drill-") as folder:
        data = Path(folder) / "data"
        with working(f"starting a stack for {chosen[0].name}") as say:
            tell = _teller(say, len(chosen))
            work = campaign(chosen, chosen_seed, out, data, tell)
            results = asyncio.run(_until_told(work))
    write(results, out)
    failed = [result.name for result in results if not result.passed]
    note(f"{len(results) - len(failed)} of {len(results)} passed; see {out / HTML}")
    if failed:
        note(f"again: milena drill --seed {chosen_seed} --cells {','.join(failed)}")
        raise typer.Exit(ExitCode.FAILED)


async def _until_told(work: Coroutine[Any, Any, list[CellResult]]) -> list[CellResult]:
    """SIGTERM ends it as Ctrl-C does: whatever was started is stopped first."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        note("told to stop")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def wanted(names: str) -> list[Cell]:
    """The cells of these names, in that order.

    Raises:
        CommandError: there is none of a name.
    """
    from ops.drill.cells import BY_NAME

    asked = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in asked if name not in BY_NAME]
    if unknown:
        raise CommandError(
            f"there is no cell {unknown[0]}", "milena drill --list", ExitCode.BAD_SETTING
        )
    return [BY_NAME[name] for name in asked]


def simulation(checkout: Path, seeds: int) -> int:
    """Runs the checkout's simulation as a child; returns its exit status.

    Raises:
        CommandError: this is no checkout.
    """
    if not (checkout / SIMULATION).is_file():
        raise CommandError(
            f"the simulation is in a checkout's {SIMULATION.parent}, and {checkout} has none",
            "cd <checkout> && milena drill --simulate",
            ExitCode.BAD_SETTING,
        )
    command = [sys.executable, "-m", "tests.simulation", "--seeds", str(seeds)]
    return subprocess.run(command, cwd=checkout, check=False).returncode


def _teller(say: Progress, count: int) -> Callable[[Cell, CellResult | None], None]:
    """Shows what runs, and writes down what it came to."""
    done = 0

    def tell(cell: Cell, result: CellResult | None) -> None:
        nonlocal done
        if result is None:
            say(f"{done + 1} of {count}: {cell.name}, {cell.what}")
            return
        done += 1
        note(f"{cell.name:<28} row {cell.row:<3} {cell.what}")
        for line in outcome_lines(result):
            note(line)

    return tell


def outcome_lines(result: CellResult) -> list[str]:
    """What a cell came to, for a person."""
    took_s = (result.ended_ms - result.began_ms) / 1_000
    verdict = "passed" if result.passed else "FAILED"
    lines = [
        f"{'':<28} {verdict} in {took_s:.0f} s, {result.looked_at.get('accepted', 0)} accepted"
    ]
    figures = ", ".join(f"{name} {value:g}" for name, value in result.measured.items())
    if figures:
        lines.append(f"{'':<30} {figures}")
    if result.error:
        lines.append(f"{'':<30} {result.error}")
    lines += [f"{'':<30} did not bite: {b.sign} {b.note}" for b in result.bites if not b.seen]
    if not result.bites and not result.error:
        lines.append(f"{'':<30} did not bite: nothing was looked for")
    for found in result.findings[:10]:
        lines.append(
            f"{'':<30} {found.invariant.value}: {found.what} {found.generation_id}".rstrip()
        )
    return lines
