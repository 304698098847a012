"""The difference between registry and broker: what is created, set, refused and left alone."""

import msgspec
import pytest

from ops.cli.topics_plan import Found, Mismatch, Setting, compare, replicas, settings
from topics.registry import EDGE_REPLIES, FACTS_RUNS, PLANS, RUNS_INBOX, TOPICS
from topics.topic import Topic


def as_declared(topic: Topic, local: bool = True) -> Found:
    return Found(topic.ring.partitions(local), replicas(local), settings(topic, local))


def everything(local: bool = True) -> dict[str, Found]:
    return {topic.name: as_declared(topic, local) for topic in TOPICS}


@pytest.mark.parametrize("local", [True, False])
def test_a_broker_as_declared_needs_nothing(local: bool) -> None:
    plan = compare(TOPICS, everything(local), local)
    assert plan.empty
    assert plan.unknown == ()


def test_an_empty_broker_needs_everything() -> None:
    plan = compare(TOPICS, {}, True)
    assert plan.create == TOPICS
    assert not plan.configure
    assert not plan.mismatches


def test_a_missing_topic_is_created() -> None:
    found = everything()
    del found[RUNS_INBOX.name]
    assert compare(TOPICS, found, True).create == (RUNS_INBOX,)


def test_a_setting_that_differs_is_set_and_others_are_left() -> None:
    found = everything()
    here = found[FACTS_RUNS.name]
    config = {**here.config, "retention.ms": "1", "segment.ms": "7"}
    found[FACTS_RUNS.name] = msgspec.structs.replace(here, config=config)
    plan = compare(TOPICS, found, True)
    expected = str(FACTS_RUNS.retention_ms)
    assert plan.configure == (Setting(FACTS_RUNS.name, "retention.ms", "1", expected),)
    assert not plan.create


def test_a_setting_the_broker_does_not_name_is_set() -> None:
    found = everything()
    here = found[PLANS.name]
    config = {name: value for name, value in here.config.items() if name != "cleanup.policy"}
    found[PLANS.name] = msgspec.structs.replace(here, config=config)
    assert compare(TOPICS, found, True).configure == (
        Setting(PLANS.name, "cleanup.policy", None, "compact"),
    )


@pytest.mark.parametrize("partitions", [1, 3, 5, 64])
def test_another_partition_count_is_never_put_right(partitions: int) -> None:
    found = everything()
    here = found[RUNS_INBOX.name]
    found[RUNS_INBOX.name] = msgspec.structs.replace(here, partitions=partitions)
    plan = compare(TOPICS, found, True)
    assert plan.mismatches == (Mismatch(RUNS_INBOX.name, "partitions", partitions, 4),)
    assert not plan.create
    assert not plan.configure
    assert f"has {partitions} partitions, declared 4" in str(plan.mismatches[0])


def test_too_few_replicas_are_refused_and_more_are_not() -> None:
    found = everything(local=False)
    here = found[EDGE_REPLIES.name]
    found[EDGE_REPLIES.name] = msgspec.structs.replace(here, replicas=2)
    plan = compare(TOPICS, found, False)
    assert plan.mismatches == (Mismatch(EDGE_REPLIES.name, "replicas", 2, 3),)
    found[EDGE_REPLIES.name] = msgspec.structs.replace(here, replicas=5)
    assert compare(TOPICS, found, False).empty


def test_a_foreign_topic_is_shown_and_left_alone() -> None:
    found = {**everything(), "other.topic": Found(1, 1, {})}
    plan = compare(TOPICS, found, True)
    assert plan.unknown == ("other.topic",)
    assert plan.empty, "nothing is to be done about it"


def test_production_acknowledges_on_two_brokers() -> None:
    assert settings(RUNS_INBOX, False)["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in settings(RUNS_INBOX, True)
    assert (replicas(True), replicas(False)) == (1, 3)
