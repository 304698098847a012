"""Makes a broker compact a topic now, and sees that it did. Owns nothing but the settings it puts back."""

from __future__ import annotations

import time
from typing import Final

import msgspec
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ops.log_scan import between, new_consumer
from ops.verify.source import BrokerSource
from topics.topic import Topic

CALL_S_MAX: Final = 20.0
LOOK_S: Final = 1.0
_EAGER: Final = {
    "min.cleanable.dirty.ratio": "0.001",
    "segment.ms": "1000",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": "1000",
}
"""A segment is closed after a second, and nothing is too young to go."""


class Done(msgspec.Struct, frozen=True):
    """Records that can be read, before and after."""

    before: int
    after: int

    @property
    def took(self) -> bool:
        return self.after < self.before


def compact(bootstrap: str, topic: Topic, s_max: float) -> Done:
    """Blocks until fewer records than before can be read, or the time is over. A segment is closed only by
    the next record behind it, so the topic must be written to meanwhile."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    before = _count(bootstrap, topic)
    own = topic.config()
    set_again = {name: own[name] for name in _EAGER if name in own}
    _alter(admin, topic, _EAGER, AlterConfigOpType.SET)
    try:
        deadline = time.monotonic() + s_max
        while (after := _count(bootstrap, topic)) >= before and time.monotonic() < deadline:
            time.sleep(LOOK_S)
    finally:
        taken_back = {name: value for name, value in _EAGER.items() if name not in set_again}
        _alter(admin, topic, taken_back, AlterConfigOpType.DELETE)
        if set_again:
            _alter(admin, topic, set_again, AlterConfigOpType.SET)
    return Done(before, after)


def _alter(
    admin: AdminClient, topic: Topic, wanted: dict[str, str], operation: AlterConfigOpType
) -> None:
    entries = [
        ConfigEntry(name, value, incremental_operation=operation) for name, value in wanted.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource], request_timeout=CALL_S_MAX).values():
        future.result(CALL_S_MAX)


def _count(bootstrap: str, topic: Topic) -> int:
    with BrokerSource(bootstrap) as source:
        extents = source.extents(topic)
    starts = {(topic.name, partition): start for partition, (start, _) in extents.items()}
    ends = {(topic.name, partition): end for partition, (_, end) in extents.items()}
    consumer = new_consumer(bootstrap, "milena-drill")
    try:
        return sum(1 for _ in between(consumer, starts, ends))
    finally:
        consumer.close()
