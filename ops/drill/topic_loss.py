"""Deletes and makes topics on a stack that may be spoilt. Owns one admin client a call."""

from __future__ import annotations

import time
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from topics.topic import Topic

CALL_S_MAX: Final = 20.0


def delete(bootstrap: str, topic: Topic) -> None:
    """Returns once the broker no longer lists it."""
    admin = _admin(bootstrap)
    for future in admin.delete_topics([topic.name], operation_timeout=CALL_S_MAX).values():
        future.result(CALL_S_MAX)
    deadline = time.monotonic() + CALL_S_MAX
    while exists(bootstrap, topic):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{topic.name} is still there")
        time.sleep(0.1)


def create(bootstrap: str, topic: Topic, partitions: int) -> None:
    """As declared, but with so many partitions."""
    wanted = NewTopic(
        topic.name, num_partitions=partitions, replication_factor=1, config=topic.config()
    )
    admin = _admin(bootstrap)  # what it promised is void once nobody holds it
    for future in admin.create_topics([wanted], operation_timeout=CALL_S_MAX).values():
        future.result(CALL_S_MAX)


def exists(bootstrap: str, topic: Topic) -> bool:
    return topic.name in _admin(bootstrap).list_topics(timeout=CALL_S_MAX).topics


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
