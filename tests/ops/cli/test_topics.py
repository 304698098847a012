"""`milena topics` against a broker in memory: it shows, asks, applies, refuses, and is done twice."""

import io

import pytest

from ops.cli import topics
from ops.cli.console import CommandError, ExitCode
from ops.cli.topics_plan import Found, Setting, replicas, settings
from tests.ops.cli.commands import milena
from topics.registry import RUNS_INBOX, TOPICS
from topics.topic import Topic


class MemoryBroker:
    """Creates and configures at once; `lagging` answers are those before the last change."""

    def __init__(self) -> None:
        self.topics: dict[str, Found] = {}
        self.changes = 0
        self.lagging = 0
        self._before: dict[str, Found] = {}

    def found(self) -> dict[str, Found]:
        if self.lagging:
            self.lagging -= 1
            return dict(self._before)
        return dict(self.topics)

    def create(self, wanted: tuple[Topic, ...]) -> None:
        self._before = dict(self.topics)
        for topic in wanted:
            assert topic.name not in self.topics, "a topic is created once"
            self.changes += 1
            self.topics[topic.name] = Found(
                topic.ring.partitions(True), replicas(True), settings(topic, True)
            )

    def configure(self, wanted: tuple[Setting, ...]) -> None:
        for change in wanted:
            self.changes += 1
            here = self.topics[change.topic]
            config = {**here.config, change.name: change.expected}
            self.topics[change.topic] = Found(here.partitions, here.replicas, config)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MemoryBroker:
    made = MemoryBroker()
    monkeypatch.setattr(topics, "_broker", lambda: (made, True))
    return made


def test_apply_creates_everything_and_then_nothing(
    broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.lagging = 0
    ran = milena(capsys, "topics", "apply", "--yes")
    assert ran.code == 0
    assert set(broker.topics) == {topic.name for topic in TOPICS}
    assert ran.out.count("done: create ") == len(TOPICS)
    again = milena(capsys, "topics", "apply", "--yes")
    assert (again.code, again.out) == (0, "nothing to do\n")
    assert broker.changes == len(TOPICS)


def test_apply_returns_once_the_broker_shows_it(
    broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    first = broker.found
    answers: list[int] = []

    def found() -> dict[str, Found]:
        answers.append(len(broker.topics))
        if len(answers) == 2:
            return {}  # asked right after the change: this broker has not heard of it yet
        return first()

    broker.found = found  # type: ignore[method-assign]
    assert milena(capsys, "topics", "apply", "--yes").code == 0
    assert len(answers) == 3


def test_nothing_is_changed_without_a_yes(
    broker: MemoryBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    ran = milena(capsys, "topics", "apply")
    assert ran.code == ExitCode.FAILED
    assert broker.changes == 0
    assert ran.out == "", "a plan that was not applied is no result"
    assert f"create {RUNS_INBOX.name}, 4 partitions" in ran.err
    assert ran.err.endswith("try `milena topics apply --yes`\n")


def test_a_difference_is_shown_and_set(
    broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    milena(capsys, "topics", "apply", "--yes")
    here = broker.topics[RUNS_INBOX.name]
    config = {**here.config, "retention.ms": "1"}
    broker.topics[RUNS_INBOX.name] = Found(here.partitions, here.replicas, config)
    shown = milena(capsys, "topics", "list")
    assert shown.code == ExitCode.FAILED
    assert "retention.ms is 1, declared 604800000" in shown.out
    applied = milena(capsys, "topics", "apply", "--yes", "--json")
    assert applied.document["created"] == []
    assert broker.topics[RUNS_INBOX.name].config["retention.ms"] == "604800000"
    assert milena(capsys, "topics", "list").code == 0


def test_another_partition_count_refuses_everything(
    broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.topics[RUNS_INBOX.name] = Found(64, 1, settings(RUNS_INBOX, True))
    ran = milena(capsys, "topics", "apply", "--yes", "--json")
    assert ran.code == ExitCode.FAILED
    assert broker.changes == 0, "not even the missing ones were created"
    assert f"{RUNS_INBOX.name} has 64 partitions, declared 4" in ran.err
    error = ran.document["error"]
    assert isinstance(error, dict)
    assert error["next"] == "milena topics list"


def test_a_foreign_topic_is_named_and_left(
    broker: MemoryBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    milena(capsys, "topics", "apply", "--yes")
    broker.topics["somebody.elses"] = Found(1, 1, {})
    ran = milena(capsys, "topics", "list")
    assert ran.code == 0
    assert "somebody.elses" in ran.err
    assert milena(capsys, "topics", "list", "--json").document["unknown"] == ["somebody.elses"]


def test_the_last_try_says_that_the_broker_is_slow(
    broker: MemoryBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "VISIBLE_S_MAX", 0.0)
    with pytest.raises(CommandError, match="does not show"):
        topics._await_visible(broker, True)  # type: ignore[arg-type]
