"""The whole product over seeds: nothing that a client was promised is lost, whatever befalls the parts.

By hand: `python -m tests.simulation --plan parts --seeds N`.
"""

from collections import Counter
from typing import Final

import msgspec

from tests.simulation.test_seeds import simulate
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


def worlds(plan: str, *seeds: int) -> list[Outcome]:
    """The whole worlds of these seeds."""
    first, count = seeds[0], len(seeds)
    ran = simulate("--json", "--plan", plan, "--from", str(first), "--seeds", str(count))
    found = [msgspec.json.decode(line, type=Outcome) for line in ran.stdout.splitlines()]
    assert [outcome.seed for outcome in found] == [*seeds], ran.stderr[-500:]
    return found


def shown(outcome: Outcome) -> str:
    return f"seed {outcome.seed}, plan {outcome.plan}: {outcome.failure}"


def test_in_peace_everybody_reads_to_the_end() -> None:
    for outcome in worlds("whole-calm", *range(3)):
        assert outcome.failure is None, shown(outcome)
        assert outcome.marks["read to the end: completed"] > 10


def test_whatever_befalls_the_parts_every_promise_is_kept() -> None:
    marks: Counter[str] = Counter()
    for outcome in worlds("parts", *range(SEEDS)):
        assert outcome.failure is None, shown(outcome)
        marks.update(outcome.marks)
    assert [name for name in SOMETIMES if not marks[name]] == []


def test_a_seed_is_one_course_of_the_world() -> None:
    first, other = worlds("parts", 3, 4)
    [again] = worlds("parts", 3)
    assert (first.digest, first.steps) == (again.digest, again.steps)
    assert first.digest != other.digest
