"""The topic registry: rings that fit, dead letters that last, producers and consumers that exist."""

import importlib.util

from tests.house.source import ROOT
from topics.models import POOLS
from topics.registry import (
    BY_NAME,
    CHANGELOGS,
    DEAD_LETTERS,
    LANE_TOPICS,
    MACHINE_INBOXES,
    MODERATION_WINDOWS,
    TOPICS,
)
from topics.topic import DAY_MS, HOUR_MS, Topic, TopicClass

# Declared, so that nothing has to be moved when they come; each leaves this list when it does.
NOT_BUILT_YET = {"processors.moderation"}


def of_class(wanted: TopicClass) -> list[Topic]:
    return [topic for topic in TOPICS if topic.topic_class is wanted]


def test_a_topic_is_declared_once() -> None:
    assert len(BY_NAME) == len(TOPICS)
    for topic in TOPICS:
        clashing = topic.name.replace(".", "_")
        assert sum(t.name.replace(".", "_") == clashing for t in TOPICS) == 1, topic.name


def test_every_inbox_has_dead_letters_that_outlive_and_hold_it() -> None:
    assert set(MACHINE_INBOXES.values()) == set(of_class(TopicClass.INBOX))
    assert set(DEAD_LETTERS.values()) == set(of_class(TopicClass.DEAD_LETTER))
    for machine, inbox in MACHINE_INBOXES.items():
        letters = DEAD_LETTERS[machine]
        assert letters.name == f"{inbox.name}.dlq"
        assert letters.retention_ms >= max(inbox.retention_ms, 7 * DAY_MS)
        assert letters.message_bytes_max >= inbox.message_bytes_max
        assert letters.ring == inbox.ring, "a dead letter keeps its partition"
        assert letters.producers == inbox.consumers


def test_a_machines_state_lies_beside_its_inbox() -> None:
    assert set(CHANGELOGS) == set(MACHINE_INBOXES)
    for machine, inbox in MACHINE_INBOXES.items():
        changelog = CHANGELOGS[machine]
        assert changelog.ring == inbox.ring
        assert changelog.compacted
        assert changelog.producers == inbox.consumers


def test_an_inbox_has_one_machine() -> None:
    for inbox in MACHINE_INBOXES.values():
        assert len(inbox.consumers) == 1, inbox.name


def test_partition_p_of_every_lane_is_one_workers() -> None:
    for pool in POOLS:
        lanes = [topic for (of, _), topic in LANE_TOPICS.items() if of == pool]
        assert len(lanes) == 4, "resume, paid, free, background"
        for local in (True, False):
            assert len({topic.ring.partitions(local) for topic in lanes}) == 1


def test_what_shares_a_key_shares_its_partitions() -> None:
    for ring in {topic.ring.name for topic in TOPICS}:
        assert len({topic.ring for topic in TOPICS if topic.ring.name == ring}) == 1, ring


def test_private_text_is_kept_for_minutes() -> None:
    assert of_class(TopicClass.CONTENT) == [MODERATION_WINDOWS]
    assert MODERATION_WINDOWS.retention_ms <= HOUR_MS
    assert MODERATION_WINDOWS.content


def test_a_fold_is_told_the_brokers_time() -> None:
    for topic in TOPICS:
        wanted = "CreateTime" if topic.topic_class is TopicClass.CHANGELOG else "LogAppendTime"
        assert topic.config()["message.timestamp.type"] == wanted, topic.name


def test_producers_and_consumers_exist() -> None:
    named = {package for topic in TOPICS for package in (*topic.producers, *topic.consumers)}
    missing = {package for package in named if not _exists(package)}
    assert missing == NOT_BUILT_YET, f"missing {missing}"


def _exists(package: str) -> bool:
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None and str(ROOT) in spec.origin
