"""Reads a stretch of the log from outside: from a time, or from marked ends, to the present end.

Owns a groupless reader for tools (bench, replay, verify). Commits nothing, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from topics.topic import Topic

CALL_S_MAX: Final = 10.0
_BATCH_MAX: Final = 1_000

Ends = Mapping[tuple[str, int], int]


class Found(msgspec.Struct, frozen=True):
    """One record; `append_ms` is its append time in epoch milliseconds."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    key: str
    value: bytes | None


class LogScan:
    """Use as a context: `with LogScan(bootstrap) as scan`."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "milena-scan",
                "enable.auto.commit": False,
                "enable.partition.eof": False,
                "isolation.level": "read_committed",
                "log_level": 3,
            }
        )

    def __enter__(self) -> LogScan:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def ends(self, topics: Iterable[Topic]) -> dict[tuple[str, int], int]:
        """The next offset of every partition: a mark to read from later.

        Raises:
            KafkaException: the broker does not answer within 10 s.
        """
        return {place: self._bounds(*place)[1] for place in self._places(topics)}

    def since(self, topics: Iterable[Topic], from_ms: int) -> Iterator[Found]:
        """Records appended at or after a time, partition by partition, up to the present end."""
        asked = [
            TopicPartition(topic, partition, from_ms) for topic, partition in self._places(topics)
        ]
        starts = self._consumer.offsets_for_times(asked, timeout=CALL_S_MAX)
        return self.after({(at.topic, at.partition): at.offset for at in starts if at.offset >= 0})

    def after(self, starts: Ends) -> Iterator[Found]:
        """Records from each start up to the present end."""
        for (topic, partition), start in starts.items():
            low, end = self._bounds(topic, partition)
            yield from self._read(topic, partition, max(start, low), end)

    def _read(self, topic: str, partition: int, start: int, end: int) -> Iterator[Found]:
        if start >= end:
            return
        self._consumer.assign([TopicPartition(topic, partition, start)])
        at = start
        while at < end:
            batch = self._consumer.consume(_BATCH_MAX, timeout=0.2)
            for message in batch:
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                offset = message.offset() or 0
                if offset >= end:
                    return
                at = offset + 1
                key = message.key() or b""
                yield Found(
                    topic,
                    partition,
                    offset,
                    message.timestamp()[1],
                    key.decode("utf-8", "replace") if isinstance(key, bytes) else key,
                    message.value(),
                )
            if not batch:
                # Compaction and transaction marks leave offsets without records behind.
                at = self._consumer.position([TopicPartition(topic, partition)])[0].offset

    def _places(self, topics: Iterable[Topic]) -> list[tuple[str, int]]:
        listed = self._consumer.list_topics(timeout=CALL_S_MAX).topics
        return [
            (topic.name, partition)
            for topic in topics
            if topic.name in listed
            for partition in sorted(listed[topic.name].partitions)
        ]

    def _bounds(self, topic: str, partition: int) -> tuple[int, int]:
        found = self._consumer.get_watermark_offsets(
            TopicPartition(topic, partition), timeout=CALL_S_MAX
        )
        if found is None:
            raise KafkaException(f"{topic}-{partition}: no answer within {CALL_S_MAX:.0f} s")
        low, high = found
        return low, high
