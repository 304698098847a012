"""Reads topics from a time to their present end, all partitions at once, in no group.

For tools: replay, benchmark, tests. Owns one consumer for as long as it reads. Commits nothing,
changes nothing, and gives up when the broker goes silent.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from topics.topic import Topic

CALL_S_MAX: Final = 10.0
SILENCE_S_MAX: Final = 15.0
_BATCH_MAX: Final = 500
_POLL_S: Final = 0.05


class Read(msgspec.Struct, frozen=True):
    """One record as read from the log; `append_ms` in epoch milliseconds."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    key: str
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def records(bootstrap: str, topics: Iterable[Topic], from_ms: int) -> Iterator[Read]:
    """Every record appended at or after `from_ms`; a partition's own are in order.

    Raises:
        KafkaException: the broker does not answer.
    """
    consumer = new_consumer(bootstrap, "milena-scan")
    try:
        ends = _ends(consumer, _starts(consumer, topics, from_ms))
        yield from _read(consumer, ends)
    finally:
        consumer.close()


Ends = dict[tuple[str, int], int]
"""(topic, partition) -> the offset to stop before."""


def new_consumer(bootstrap: str, group: str) -> Consumer:
    """A consumer that joins no group; `group` names whose committed offsets it can ask for."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",  # what retention took away must not be skipped in silence
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )


def bounds(consumer: Consumer, at: TopicPartition) -> tuple[int, int]:
    """The first offset that a partition still has, and the one behind its last.

    Raises:
        KafkaException: the broker does not answer.
    """
    found: tuple[int, int] | None = consumer.get_watermark_offsets(at, timeout=CALL_S_MAX)
    if found is None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return found


def between(consumer: Consumer, starts: Ends, ends: Ends) -> Iterator[Read]:
    """Every record from each start to before its end; a partition's own are in order. The consumer
    may be used again once all were taken.

    Raises:
        KafkaException: the broker does not answer.
    """
    wanted = {place: end for place, end in ends.items() if end > starts[place]}
    consumer.assign([TopicPartition(*place, starts[place]) for place in wanted])
    yield from _read(consumer, wanted)


def _starts(consumer: Consumer, topics: Iterable[Topic], from_ms: int) -> list[TopicPartition]:
    """Where to begin, partitions without a record since then left out."""
    listed = consumer.list_topics(timeout=CALL_S_MAX).topics
    asked = [
        TopicPartition(topic.name, partition, from_ms)
        for topic in topics
        if topic.name in listed
        for partition in listed[topic.name].partitions
    ]
    found = consumer.offsets_for_times(asked, timeout=CALL_S_MAX) if asked else []
    return [at for at in found if at.offset != OFFSET_END and at.offset >= 0]


def _ends(consumer: Consumer, starts: list[TopicPartition]) -> Ends:
    """Assigns the partitions and notes where each ends now."""
    ends: Ends = {}
    for at in starts:
        _, end = bounds(consumer, at)
        if end > at.offset:
            ends[(at.topic, at.partition)] = end
    consumer.assign([at for at in starts if (at.topic, at.partition) in ends])
    return ends


def _read(consumer: Consumer, ends: Ends) -> Iterator[Read]:
    heard_s = time.monotonic()
    while ends:
        for message in consumer.consume(_BATCH_MAX, timeout=_POLL_S):
            heard_s = time.monotonic()
            place = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ends.pop(place, None)  # what compaction took away at the end never comes
                continue
            offset, end = message.offset() or 0, ends.get(place)
            if end is None:
                continue
            if offset < end:
                yield _as_read(message, place, offset)
            if offset >= end - 1:
                del ends[place]
        if time.monotonic() - heard_s > SILENCE_S_MAX:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def _as_read(message: Message, place: tuple[str, int], offset: int) -> Read:
    key = message.key() or b""
    text = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
    value = message.value()
    raw = value.encode() if isinstance(value, str) else value
    headers = tuple((name, value or b"") for name, value in message.headers() or ())
    return Read(*place, offset, message.timestamp()[1], text, raw, headers)
