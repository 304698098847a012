"""The lives that fill a machine: each event is accepted, and a key waits for nothing at its end."""

from typing import Any

import pytest
from msgspec import Struct

from ops.drill import many_keys
from ops.drill.resume import TOLD
from processors.machine import Event
from processors.machines import MACHINES
from topics import wire

NOW_MS = 1_800_000_000_000
SOON_MS = 30 * 60_000


@pytest.mark.parametrize("machine", list(many_keys.LIVES))
def test_a_life_leaves_a_state_that_waits_for_nothing(machine: str) -> None:
    made = MACHINES[machine]({})
    (key,) = many_keys.keys(machine, "kept", 1)
    topic, kind, name_of, field = TOLD[machine]
    state: Struct | None = None
    told: list[Struct] = []
    for number, envelope in enumerate(many_keys.events(machine, key, NOW_MS)):
        read: Any = wire.decode(type(envelope), wire.encode(envelope))
        event = Event(event_id=read.event_id, key=key, append_ms=NOW_MS + number, body=read.body)
        state, outputs = made.fold(state, event)
        if number == 0:
            told = [out.value for out in outputs if out.topic == topic]
    assert state is not None
    deadline = made.next_deadline(state)
    assert deadline is None or deadline > NOW_MS + SOON_MS, "no Due comes while it is measured"
    assert [getattr(fact, field) for fact in told] == [name_of(key)]
    assert isinstance(told[0], kind)


def test_keys_are_many_and_other_ones_for_another_mark() -> None:
    kept, probes = many_keys.keys("runs", "kept", 500), many_keys.keys("runs", "probe", 500)
    assert len({*kept, *probes}) == 1_000
    assert kept == many_keys.keys("runs", "kept", 500)
