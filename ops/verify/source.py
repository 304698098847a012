"""The log as a proof reads it: where each partition begins and ends, its records, what was committed.

Owns the one consumer that reads and the ones that only ask. Joins no group, commits nothing, changes
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Final, Protocol

from confluent_kafka import Consumer, TopicPartition

from ops.log_scan import CALL_S_MAX, Read, between, bounds, new_consumer
from topics.registry import MACHINE_INBOXES
from topics.topic import Topic

GROUP_PREFIX: Final = "milena-"
"""Of a machine's consumer group, which is its Faust app's id."""
Extent = tuple[int, int]
"""First offset kept, and the one past the last."""


class Source(Protocol):
    """What a proof needs of the log."""

    def extents(self, topic: Topic) -> dict[int, Extent]:
        """Each partition's, as it is now; empty where the topic does not exist."""

    def read(self, topic: Topic, extents: Mapping[int, Extent]) -> Iterator[Read]:
        """The records between; a partition's own in order."""

    def committed(self, machine: str, partitions: int) -> dict[int, int]:
        """The next offset each inbox partition's machine would read; 0 where it committed nothing."""


class BrokerSource:
    """A broker. Use as a context: it holds connections."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = new_consumer(bootstrap, "milena-verify")
        self._askers: dict[str, Consumer] = {}

    def __enter__(self) -> BrokerSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for consumer in (self._consumer, *self._askers.values()):
            consumer.close()

    def extents(self, topic: Topic) -> dict[int, Extent]:
        """
        Raises:
            KafkaException: the broker does not answer.
        """
        listed = self._consumer.list_topics(timeout=CALL_S_MAX).topics
        if topic.name not in listed:
            return {}
        found: dict[int, Extent] = {}
        for partition in listed[topic.name].partitions:
            found[partition] = bounds(self._consumer, TopicPartition(topic.name, partition))
        return found

    def read(self, topic: Topic, extents: Mapping[int, Extent]) -> Iterator[Read]:
        """
        Raises:
            KafkaException: the broker does not answer, or retention took a record meanwhile.
        """
        starts = {(topic.name, partition): start for partition, (start, _) in extents.items()}
        ends = {(topic.name, partition): end for partition, (_, end) in extents.items()}
        yield from between(self._consumer, starts, ends)

    def committed(self, machine: str, partitions: int) -> dict[int, int]:
        """
        Raises:
            KafkaException: the broker does not answer.
        """
        if machine not in self._askers:
            self._askers[machine] = new_consumer(self._bootstrap, f"{GROUP_PREFIX}{machine}")
        inbox = MACHINE_INBOXES[machine].name
        asked = [TopicPartition(inbox, partition) for partition in range(partitions)]
        told = self._askers[machine].committed(asked, timeout=CALL_S_MAX)
        return {at.partition: max(0, at.offset) for at in told}
