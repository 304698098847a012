"""`milena topics adopt` and `refold` over a changelog in memory: what is written, what is refused."""

import pytest

from ops.cli import topics_past
from processors import marks
from processors.machines import MACHINES
from processors.marks import Mark
from tests.ops.cli.commands import milena

Capture = pytest.CaptureFixture[str]


class MemoryChangelog:
    """The marks of `accounts` on a broker whose inbox has the id `now`."""

    partitions = 4

    def __init__(self, now: str, found: dict[int, Mark]) -> None:
        self.machine = MACHINES["accounts"]({})
        self.found = found
        self.now = now
        self.written: dict[int, Mark] = {}

    def inbox_id(self) -> str:
        return self.now

    def marks(self) -> dict[int, Mark]:
        return {**self.found, **self.written}

    def write(self, wanted: dict[int, Mark]) -> None:
        self.written.update(wanted)


def folded(topic_id: str = "old") -> dict[int, Mark]:
    return {partition: marks.first(topic_id, 1) for partition in range(4)}


def use(monkeypatch: pytest.MonkeyPatch, log: MemoryChangelog) -> MemoryChangelog:
    monkeypatch.setattr(topics_past, "_changelog", lambda machine: log)
    return log


def test_adopt_begins_the_next_life_of_every_partition_and_then_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    log = use(monkeypatch, MemoryChangelog("new", folded()))
    ran = milena(capsys, "topics", "adopt", "accounts", "--yes")
    assert ran.code == 0
    assert {(mark.life, mark.topic_id, mark.rewind) for mark in log.written.values()} == {
        (2, "new", True)
    }
    assert sorted(log.written) == [0, 1, 2, 3]
    again = milena(capsys, "topics", "adopt", "accounts", "--yes")
    assert (again.code, again.out) == (0, "nothing to do\n")


def test_nothing_is_written_without_a_yes(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    log = use(monkeypatch, MemoryChangelog("new", folded()))
    ran = milena(capsys, "topics", "adopt", "accounts")
    assert ran.code == 1
    assert "milena topics adopt accounts --yes" in ran.err
    assert not log.written


def test_a_lost_changelog_is_not_adopted_but_refolded(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    half = {partition: mark for partition, mark in folded().items() if partition < 2}
    log = use(monkeypatch, MemoryChangelog("old", half))
    refused = milena(capsys, "topics", "adopt", "accounts", "--yes")
    assert refused.code == 5
    assert "milena topics refold accounts" in refused.err
    assert milena(capsys, "topics", "refold", "accounts", "--yes").code == 0
    assert sorted(log.written) == [0, 1, 2, 3]
    assert all(mark.rewind and mark.topic_id == "old" for mark in log.written.values())
    assert log.written[0].seq > half[0].seq, "a running machine must see a newer mark"


def test_a_machine_that_never_folded_has_nothing_to_adopt(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    use(monkeypatch, MemoryChangelog("new", {}))
    assert milena(capsys, "topics", "adopt", "accounts", "--yes").code == 4


def test_an_unknown_machine_is_named_with_those_there_are(capsys: Capture) -> None:
    ran = milena(capsys, "topics", "adopt", "nobody", "--yes")
    assert ran.code == 2
    assert "accounts, runs, workers, metering" in ran.err
