"""The whole product over seeds: nothing that a client was promised is lost, whatever befalls the parts.

By hand: any number of seeds with `run(seed, PARTS)`; the command of the simulation runs them as well.
"""

from collections import Counter
from typing import Final

import pytest

from tests.simulation.apart import Told, worlds
from tests.simulation.bugs import Bug
from tests.simulation.part_bugs import PART_BUGS

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


def shown(told: Told) -> str:
    return f"seed {told.seed}: {told.failure}"


def test_in_peace_everybody_reads_to_the_end() -> None:
    for told in worlds(0, 3, "calm"):
        assert told.failure is None, shown(told)
        assert told.marks["read to the end: completed"] > 10


def test_whatever_befalls_the_parts_every_promise_is_kept() -> None:
    marks: Counter[str] = Counter()
    for told in worlds(0, SEEDS, "parts"):
        assert told.failure is None, shown(told)
        marks.update(told.marks)
    assert [name for name in SOMETIMES if not marks[name]] == []


def test_a_seed_is_one_course_of_the_world() -> None:
    first, other = worlds(3, 5, "parts")
    [again] = worlds(3, 4, "parts")
    assert (first.digest, first.steps) == (again.digest, again.steps)
    assert first.digest != other.digest


@pytest.mark.parametrize("bug", PART_BUGS, ids=lambda bug: bug.name)
def test_a_safety_that_is_off_is_found(bug: Bug) -> None:
    told = worlds(0, bug.within, "parts", bug.name)
    assert any(one.failure is not None and one.failure.startswith("Broken") for one in told)
