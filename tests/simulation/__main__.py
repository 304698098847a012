"""`python -m tests.simulation --seeds N`: runs worlds, tells which seeds break an invariant.

One failure prints one line that replays it. Exit code 1 where a seed failed, or where the batch never saw
what it must see sometimes.
"""

import argparse
import os
import sys

import msgspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

_HASH_SEED = "0"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed")
    parser.add_argument("--plan", default="default", help="mixture of faults")
    parser.add_argument("--parallel", type=int, default=1, help="processes")
    parser.add_argument("--bug", help="seed this bug; success is to find it")
    parser.add_argument("--json", action="store_true", help="only a JSON line for each seed")
    parser.add_argument("--trace", nargs="?", type=int, const=60, help="show the last steps")
    return parser.parse_args()


def main() -> int:
    """The exit code."""
    from tests.simulation import batch, marks
    from tests.simulation.plans import DEFAULT
    from tests.simulation.world import Outcome

    wanted = _arguments()
    console = Console()
    if wanted.seed is not None:
        outcome = batch.one((wanted.seed, wanted.plan, wanted.bug))
        for line in outcome.last[-(wanted.trace or 0) :] if wanted.trace else ():
            console.print(line, markup=False, highlight=False, soft_wrap=True)
        console.print(
            f"seed {outcome.seed}: {outcome.failure or 'all invariants hold'}", markup=False
        )
        console.print(f"digest {outcome.digest}, {outcome.steps} steps", highlight=False)
        return 1 if outcome.failure else 0
    plan = batch.BUGS[wanted.bug].plan if wanted.bug else wanted.plan
    seeds = range(wanted.first, wanted.first + wanted.seeds)
    tasks = [(seed, plan, wanted.bug) for seed in seeds]
    with Progress(console=console, transient=True, disable=wanted.json) as progress:
        bar = progress.add_task("seeds", total=len(tasks))

        def tell(done: batch.Summary, outcome: Outcome) -> None:
            progress.update(bar, completed=done.seeds)
            if wanted.json:
                sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")

        summary = batch.summed(tasks, wanted.parallel, tell)
    if wanted.json:
        return 1 if summary.failed else 0
    table = Table("mark", "times", title=f"{summary.seeds} seeds, plan {plan}")
    for name in sorted(summary.marks):
        table.add_row(name, str(summary.marks[name]))
    console.print(table)
    console.print(
        f"{summary.steps} steps, {summary.records} records, {summary.virtual_s:.0f} virtual seconds",
        highlight=False,
    )
    for outcome in summary.failed:
        console.print(f"{outcome.failure}", markup=False, soft_wrap=True)
        console.print("  " + batch.replay_line(outcome, wanted.bug), markup=False, soft_wrap=True)
    unseen = (
        [] if wanted.bug or plan != DEFAULT.name else marks.missing(summary.marks, summary.seeds)
    )
    for name in unseen:
        console.print(f"never happened in {summary.seeds} seeds: {name}", markup=False)
    return 1 if summary.failed or unseen else 0


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != _HASH_SEED:
        # The order of sets is part of a run: the same in every process.
        os.environ["PYTHONHASHSEED"] = _HASH_SEED
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
