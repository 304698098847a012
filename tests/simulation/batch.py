"""Many seeds, over several processes. Owns the spreading and the sum; runs no world itself."""

import multiprocessing
import shlex
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Final

import msgspec
import structlog

from tests.simulation import bugs
from tests.simulation.part_bugs import PART_BUGS
from tests.simulation.plans import PLANS, WHOLE
from tests.simulation.whole import WholeWorld
from tests.simulation.world import Outcome, World

BUGS: Final = {bug.name: bug for bug in (*bugs.BUGS, *PART_BUGS)}
Task = tuple[int, str, str | None]
"""Seed, plan, seeded bug."""


class Summary(msgspec.Struct):
    """A batch so far."""

    seeds: int = 0
    steps: int = 0
    records: int = 0
    virtual_s: float = 0.0
    marks: Counter[str] = msgspec.field(default_factory=Counter)
    failed: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.steps += outcome.steps
        self.records += outcome.records
        self.virtual_s += outcome.virtual_s
        self.marks.update(outcome.marks)
        if outcome.failure is not None:
            self.failed.append(outcome)


def replay_line(outcome: Outcome, bug: str | None = None) -> str:
    """The command that shows this failure again."""
    seeded = f" --bug {shlex.quote(bug)}" if bug else ""
    return f"python -m tests.simulation --seed {outcome.seed} --plan {outcome.plan}{seeded} --trace"


def one(task: Task) -> Outcome:
    """Runs one seed, with a bug seeded where one is named."""
    seed, plan, bug = task
    quiet()
    with bugs.seeded(BUGS[bug]) if bug else nullcontext():
        return (WholeWorld if plan in WHOLE else World)(seed, PLANS[plan]).run()


def quiet() -> None:
    """The simulated processes log into nothing."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def outcomes(tasks: list[Task], parallel: int) -> Iterator[Outcome]:
    """Every task's outcome, in order."""
    if parallel <= 1:
        yield from map(one, tasks)
        return
    with multiprocessing.get_context("fork").Pool(parallel, maxtasksperchild=200) as pool:
        yield from pool.imap(one, tasks, chunksize=1)


def summed(tasks: list[Task], parallel: int, told: Callable[[Summary, Outcome], None]) -> Summary:
    """The whole batch, or, where a bug is seeded, up to the seed that finds it; `told` hears of each."""
    summary = Summary()
    for outcome in outcomes(tasks, parallel):
        summary.add(outcome)
        told(summary, outcome)
        if summary.failed and tasks[0][2] is not None:
            break
    return summary
