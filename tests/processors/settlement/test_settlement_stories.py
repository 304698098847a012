"""Stories of settlement: each effect once, in whatever order it comes."""

import pytest

from schemas.generated.types import ReleaseReason, SettlementFact, Terminal
from tests.processors.accounts import ACCOUNTS, WINDOW_S
from tests.processors.events import consume, due, release, settle, submit, usage
from tests.processors.laws import facts, steps
from tests.processors.logs import timed
from tests.processors.story import T0_MS, Line, play

OLD_WINDOW = "an old window keeps its counters until its last generation ended"
ADMITTED: Line = (0, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1")
STORIES: dict[str, list[Line]] = {
    "consumed, then settled": [
        ADMITTED,
        (1, consume("a"), "+consumed 1+0/3 s1"),
        (2, settle("a"), "+settled 1+0/3 s0"),
    ],
    "repeats are void": [
        ADMITTED,
        (1, consume("a"), "+consumed 1+0/3 s1"),
        (1, consume("a"), ""),
        (2, settle("a"), "+settled 1+0/3 s0"),
        (2, settle("a"), ""),
        (2, consume("a"), ""),
        (2, release("a"), ""),
    ],
    "released once, and then nothing": [
        ADMITTED,
        (1, release("a"), "+released 0+0/3 s0"),
        (1, release("a"), ""),
        (1, consume("a"), ""),
        (1, settle("a"), ""),
    ],
    "what is consumed is not given back": [
        ADMITTED,
        (1, consume("a"), "+consumed 1+0/3 s1"),
        (2, release("a"), ""),
        (3, settle("a", Terminal.CANCELLED), "+settled 1+0/3 s0"),
    ],
    "a settle that comes first consumes as well": [
        ADMITTED,
        (1, settle("a"), "+consumed 1+0/3 s1; +settled 1+0/3 s0"),
        (2, consume("a"), ""),
    ],
    "generations nobody knows": [
        (0, consume("x"), ""),
        ADMITTED,
        (1, release("x"), ""),
        (1, settle("x"), ""),
    ],
    OLD_WINDOW: [
        ADMITTED,
        (1, consume("a"), "+consumed 1+0/3 s1"),
        (WINDOW_S, submit("b", "k2"), "run_1 start g-b; +admitted 0+1/3 s2"),
        (WINDOW_S + 1, settle("a"), "+settled 1+0/3 s1"),
        (WINDOW_S + 1, settle("b"), "+consumed 1+0/3 s1; +settled 1+0/3 s0"),
        (WINDOW_S + 1, due(), ""),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    play(ACCOUNTS, "usr_1", STORIES[story])


def test_old_windows_leave() -> None:
    state = play(ACCOUNTS, "usr_1", STORIES[OLD_WINDOW])
    assert state is not None
    assert list(state.windows) == [T0_MS + WINDOW_S * 1_000]


def test_facts_say_why_and_how_much() -> None:
    log = timed("usr_1")(
        [
            (0, submit("a", "k")),
            (0, submit("b", "k2")),
            (5, release("a", ReleaseReason.CANCELLED)),
            (5, settle("b", Terminal.FAILED)),
        ]
    )
    told = [fact for *_, outputs in steps(ACCOUNTS, log) for fact in facts(outputs, SettlementFact)]
    released, consumed, settled = told
    assert (released.release_reason, released.terminal, released.usage) == (
        ReleaseReason.CANCELLED,
        None,
        None,
    )
    assert consumed.usage is None
    assert (settled.terminal, settled.usage, settled.at) == (
        Terminal.FAILED,
        usage(5),
        T0_MS + 10,
    )
    assert {fact.window_start_at for fact in told} == {T0_MS}
