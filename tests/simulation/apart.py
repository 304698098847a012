"""`python -m tests.simulation.apart FROM TO PLAN [BUG]`: whole worlds in a process of their own.

One JSON line a seed. A process, because a world leaves the coroutines of killed processes behind, and
because the order of sets must be the same in every run (`PYTHONHASHSEED`).
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import msgspec

from tests.simulation import batch
from tests.simulation.part_bugs import PART_BUGS
from tests.simulation.plans import CALM
from tests.simulation.whole import PARTS, run

PLANS: Final = {"calm": CALM, "parts": PARTS}
S_MAX: Final = 110


class Told(msgspec.Struct, frozen=True):
    """What a world came to."""

    seed: int
    failure: str | None
    digest: str
    steps: int
    marks: dict[str, int]


def worlds(first: int, end: int, plan: str, bug: str = "") -> Iterator[Told]:
    """The worlds of the seeds from `first` to before `end`, in order, as they come."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.simulation.apart", str(first), str(end), plan, bug],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdout is not None
        try:
            count = 0
            for line in child.stdout:
                count += 1
                yield msgspec.json.decode(line, type=Told)
            assert count == end - first, f"the worlds ended by themselves after {count}"
        finally:
            child.kill()


def main() -> None:
    first, end, plan, *bug = sys.argv[1:]
    batch.quiet()
    with ExitStack() as stack:
        for one in PART_BUGS:
            if one.name == "".join(bug):
                one.seeds_it(stack)
        for seed in range(int(first), int(end)):
            outcome = run(seed, PLANS[plan])
            told = Told(
                seed, outcome.failure, str(outcome.digest), outcome.steps, dict(outcome.marks)
            )
            sys.stdout.buffer.write(msgspec.json.encode(told) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
