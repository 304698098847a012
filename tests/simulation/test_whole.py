"""The whole product over seeds: nothing that a client was promised is lost, whatever befalls the parts.

By hand: any number of seeds with `run(seed, PARTS)`; the command of the simulation runs them as well.
"""

from collections import Counter
from contextlib import ExitStack
from typing import Final

import pytest

from tests.simulation import batch
from tests.simulation.part_bugs import PART_BUGS
from tests.simulation.plans import CALM
from tests.simulation.whole import PARTS, run
from tests.simulation.world import Outcome

SEEDS: Final = 10
SOMETIMES: Final = (
    "read to the end: completed",
    "read to the end: cancelled",
    "read to the end: failed",
    "came back with an id",
    "client cut its stream",
    "stream broken",
    "restarted worker",
    "restarted closer",
    "restarted edge",
    "worker ended by itself",
    "fault: redis killed",
    "fault: redis flushed",
    "fault: redis frozen",
    "fault: redis full",
    "fault: store away",
    "fault: store frozen",
    "put_payload unknown, applied",
    "put_payload unknown, not applied",
    "push lost",
    "push late",
    "Ended said again",
    "lease expired",
)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    batch.quiet()


def shown(outcome: Outcome) -> str:
    return f"seed {outcome.seed}, plan {outcome.plan}: {outcome.failure}"


def test_in_peace_everybody_reads_to_the_end() -> None:
    for seed in range(3):
        outcome = run(seed, CALM)
        assert outcome.failure is None, shown(outcome)
        assert outcome.marks["read to the end: completed"] > 10


def test_whatever_befalls_the_parts_every_promise_is_kept() -> None:
    marks: Counter[str] = Counter()
    for seed in range(SEEDS):
        outcome = run(seed, PARTS)
        assert outcome.failure is None, shown(outcome)
        marks.update(outcome.marks)
    assert [name for name in SOMETIMES if not marks[name]] == []


def test_a_seed_is_one_course_of_the_world() -> None:
    first, again, other = run(3, PARTS), run(3, PARTS), run(4, PARTS)
    assert (first.digest, first.steps) == (again.digest, again.steps)
    assert first.digest != other.digest


@pytest.mark.parametrize("name", [bug.name for bug in PART_BUGS])
def test_a_safety_that_is_off_is_found(name: str) -> None:
    [bug] = [bug for bug in PART_BUGS if bug.name == name]
    with ExitStack() as stack:
        bug.seeds_it(stack)
        failures = (run(seed, PARTS).failure for seed in range(bug.within))
        assert any(failure is not None and failure.startswith("Broken") for failure in failures)
