"""Stories and laws of metering."""

import pytest
from hypothesis import given

from processors.machine import Event
from processors.metering.machine import metering_machine
from tests.processors import laws
from tests.processors.events import consume, due, used
from tests.processors.logs import metering_logs, restarts
from tests.processors.story import T0_MS, Line, play
from topics.errors import NotSupported

METERING = metering_machine()
LOGS = metering_logs()
DAY_S = 86_400

STORY: list[Line] = [
    (0, used(1), "+usage e1 7/5"),
    (0, used(1), ""),
    # A dead worker's epoch was estimated; its own word later is the same compute.
    (1, used(2, "w2", output=0), "+usage e2 7/0"),
    (2, used(2, "w2", output=9, void=True), ""),
    # Somebody else computed that epoch without a grant: computed all the same.
    (3, used(2, "w3", output=4, void=True), "+usage e2 7/4 void"),
    (DAY_S + 2, due(), ""),
    (DAY_S + 2, used(1), ""),
]


def test_story() -> None:
    state = play(METERING, "g-a", STORY)
    assert state is not None
    assert METERING.next_deadline(state) == T0_MS + (DAY_S + 3) * 1_000
    assert play(METERING, "g-a", [(DAY_S + 3, due(), "")], state) is None


def test_a_fact_carries_what_was_computed() -> None:
    _, outputs = METERING.fold(None, _event(used(1, granted_at_ms=1)))
    (fact,) = (output.value for output in outputs)
    assert (fact.at, fact.run_ms, fact.user_id, fact.model) == (1_001, 1_000, "usr_1", "scripted")
    assert (fact.input_tokens, fact.output_tokens, fact.estimated) == (7, 5, False)
    _, outputs = METERING.fold(None, _event(used(1, void=True, granted_at_ms=0)))
    assert outputs[0].value.run_ms == 0


def test_foreign_events_are_not_supported() -> None:
    with pytest.raises(NotSupported):
        METERING.fold(None, _event(consume("a")))
    assert METERING.over_cap(_event(used(1))) == ()


@given(LOGS, restarts)
def test_replay(log: list[Event], again: list[laws.Restart]) -> None:
    laws.law_replay(METERING, log, again)


@given(LOGS)
def test_usage_is_told_once(log: list[Event]) -> None:
    laws.law_usage_told_once(METERING, log)


@given(LOGS)
def test_deadlines_move(log: list[Event]) -> None:
    laws.law_deadlines_move(METERING, log)


def _event(body: object) -> Event:
    return Event(event_id="e", key="g-a", append_ms=T0_MS, body=body)
