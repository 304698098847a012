"""Stories of one incarnation: heartbeats, grants, silence, farewell."""

import pytest

from processors.machine import Event
from processors.workers.machine import workers_machine
from schemas.generated.types import LeaseExpired, Left
from tests.processors.events import consume, due, freed, heartbeat, owned
from tests.processors.laws import bodies
from tests.processors.story import T0_MS, Line, play
from topics.errors import NotSupported

WORKERS = workers_machine()
HOUR_S = 3_600

STORIES: dict[str, list[Line]] = {
    "a quiet life": [
        (0, heartbeat(1), "+joined 0"),
        (2, heartbeat(2), ""),
        (3, owned("a"), ""),
        (4, heartbeat(3, ("a", 1, 7)), ""),
        (5, freed("a"), ""),
        (14, due(), "+lease_expired 0"),
    ],
    "a silent one loses what runs said it owns, with the counts it told": [
        (0, heartbeat(1), "+joined 0"),
        (1, owned("a"), ""),
        (1, owned("b"), ""),
        (2, heartbeat(2, ("a", 1, 7), ("b", 2, 9), ("c", 1, 1)), ""),
        (11.9, due(), ""),
        (
            12,
            due(),
            "run_a lease expired g-a e1 7; run_b lease expired g-b e1 0; +lease_expired 2",
        ),
        (12, due(), ""),
        (12, freed("a"), ""),
        # The dead one is granted something once more: it ends at once. It never lives again.
        (13, owned("d"), "run_d lease expired g-d e1 0"),
        (14, heartbeat(3), ""),
        (15, owned("e"), "run_e lease expired g-e e1 0"),
        (16, Left(beat=3), ""),
    ],
    "a log that was away is nobody's death": [
        (0, heartbeat(1), "+joined 0"),
        (1, owned("a"), ""),
        (30, due(live_s=2), ""),
        (33, heartbeat(2), ""),
        (38, due(live_s=10), ""),
        (42.9, due(live_s=15), ""),
        (43, due(live_s=15), "run_a lease expired g-a e1 0; +lease_expired 1"),
    ],
    "granted before its first heartbeat": [
        (0, owned("a"), ""),
        (9, heartbeat(1), "+joined 0"),
        (10, due(), ""),
        (19, due(), "run_a lease expired g-a e1 0; +lease_expired 1"),
    ],
    "granted, and never heard of": [
        (0, owned("a"), ""),
        (5, owned("b"), ""),
        (
            10,
            due(),
            "run_a lease expired g-a e1 0; run_b lease expired g-b e1 0; +lease_expired 2",
        ),
    ],
    "it says goodbye": [
        (0, heartbeat(1), "+joined 0"),
        (1, Left(beat=1), "+left 0"),
        (2, heartbeat(1), ""),
        (2, owned("a"), "run_a lease expired g-a e1 0"),
        (2, Left(beat=1), ""),
    ],
    "it says goodbye and leaves something": [
        (0, heartbeat(1), "+joined 0"),
        (1, owned("a"), ""),
        (1, Left(beat=1), "run_a lease expired g-a e1 0; +left 1"),
    ],
    "epochs only grow": [
        (0, heartbeat(1), "+joined 0"),
        (1, owned("a", 2), ""),
        (1, owned("a", 1), ""),
        (1, freed("a", 1), ""),
        (10, due(), "run_a lease expired g-a e2 0; +lease_expired 1"),
    ],
    "counts only grow, and old heartbeats renew nothing": [
        (0, heartbeat(5), "+joined 0"),
        (1, owned("a"), ""),
        (2, heartbeat(6, ("a", 1, 7)), ""),
        (9, heartbeat(5, ("a", 1, 3)), ""),
        (12, due(), "run_a lease expired g-a e1 7; +lease_expired 1"),
    ],
    "unknown ones": [
        (0, freed("a"), ""),
        (0, Left(beat=1), ""),
        (0, due(), ""),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    play(WORKERS, "w1", STORIES[story])


def test_it_is_forgotten_an_hour_after_its_last_lease() -> None:
    lines: list[Line] = [
        (0, heartbeat(1), "+joined 0"),
        (10, due(), "+lease_expired 0"),
        (100, owned("a"), "run_a lease expired g-a e1 0"),
        (HOUR_S + 99, due(), ""),
    ]
    state = play(WORKERS, "w1", lines)
    assert state is not None
    assert WORKERS.next_deadline(state) == T0_MS + (HOUR_S + 100) * 1_000
    assert play(WORKERS, "w1", [(HOUR_S + 100, due(), "")], state) is None


def test_an_early_due_arms_itself_again() -> None:
    state = play(WORKERS, "w1", [(0, heartbeat(1), "+joined 0"), (30, due(live_s=4), "")])
    assert state is not None
    assert WORKERS.next_deadline(state) == T0_MS + 36_000


def test_a_lost_lease_names_the_incarnation() -> None:
    state = play(WORKERS, "w1", [(0, owned("a"), "")])
    _, outputs = WORKERS.fold(
        state, Event(event_id="e", key="w1", append_ms=T0_MS + 10_000, body=due())
    )
    (lost,) = bodies(outputs, LeaseExpired)
    assert (lost.incarnation, outputs[0].key) == ("w1", "run_a")


def test_foreign_events_are_not_supported() -> None:
    event = Event(event_id="e", key="w1", append_ms=T0_MS, body=consume("a"))
    with pytest.raises(NotSupported):
        WORKERS.fold(None, event)
    assert WORKERS.over_cap(event) == ()
