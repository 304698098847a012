"""What every process asks before it starts: are the topics there, in the right number of partitions."""

import pytest

from topics.errors import TopologyError
from topics.registry import MACHINE_INBOXES, RUNS_INBOX
from topics.topology import complaints, require

INBOXES = tuple(MACHINE_INBOXES.values())


def counts(local: bool) -> dict[str, int]:
    return {topic.name: topic.ring.partitions(local) for topic in INBOXES}


@pytest.mark.parametrize("local", [True, False])
def test_a_broker_as_declared_is_let_through(local: bool) -> None:
    require({**counts(local), "a.foreign.topic": 1}, INBOXES, local)


def test_every_difference_is_named_with_the_next_step() -> None:
    found = counts(True)
    del found[RUNS_INBOX.name]
    lines = complaints(found, INBOXES, True)
    assert lines == [f"topic {RUNS_INBOX.name} is missing; run `milena topics apply`"]
    with pytest.raises(TopologyError, match="has 64 partitions, expected 4"):
        require(counts(False), INBOXES, True)
