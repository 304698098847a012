"""Reads spans of a topic's partitions with a client of its own. Owns no choice among what it reads.

librdkafka in batches, on the calling thread. Nothing is skipped: an error of any record, a deadline passed,
all raise.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from processors.transport.offsets import Place

ASK_S_MAX: Final = 10.0
_BATCH: Final = 5_000
_POLL_S: Final = 0.05
Put = Callable[[Message], None]


class Unread(Exception):
    """A span could not be read to its end."""


def client(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


def ends(
    admin: AdminClient, places: Iterable[Place], isolation: IsolationLevel
) -> dict[Place, int]:
    """The end offset of each partition: of what was appended, or (read committed) of what may be read.

    Raises:
        KafkaException: the broker does not tell.
    """
    asked = {TopicPartition(*place): OffsetSpec.latest() for place in places}
    if not asked:
        return {}
    told = admin.list_offsets(asked, isolation_level=isolation, request_timeout=ASK_S_MAX)
    return {(tp.topic, tp.partition): told[tp].result(ASK_S_MAX).offset for tp in told}


def read(
    bootstrap: str,
    topic: str,
    spans: Mapping[int, tuple[int | None, int]],
    put: Put,
    deadline_s: float,
    stop: threading.Event,
) -> None:
    """Gives every record of the spans (partition -> start, end not included; None: from the beginning),
    in the order of each partition, to `put`. `deadline_s` is on the monotonic clock; returns early where
    `stop` is set.

    Raises:
        Unread: the deadline passed.
        KafkaException: whatever else the broker said.
    """
    waited = {one: end for one, (start, end) in spans.items() if end > (start or 0)}
    if not waited:
        return
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}.readers",  # asked for by the client; nothing is ever committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,  # an end is told when a fetch finds nothing more
            "log_level": 2,
        }
    )
    try:
        consumer.list_topics(topic, ASK_S_MAX)  # leaders not known yet would be asked for in 500 ms
        consumer.assign([_start(topic, one, spans[one][0]) for one in waited])
        while waited and not stop.is_set():
            if time.monotonic() > deadline_s:
                raise Unread(f"{topic}: partitions {sorted(waited)} not read in time")
            for message in consumer.consume(_BATCH, _POLL_S):
                _take(message, waited, put)
    finally:
        consumer.close()


def _start(topic: str, partition: int, start: int | None) -> TopicPartition:
    return TopicPartition(topic, partition, OFFSET_BEGINNING if start is None else start)


def _take(message: Message, waited: dict[int, int], put: Put) -> None:
    error, partition, offset = message.error(), message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    if error is not None and error.code() != KafkaError._PARTITION_EOF:
        raise KafkaException(error)
    end = waited.get(partition)
    if end is None:
        return  # behind the span's end
    if error is None and offset < end:
        put(message)
        offset += 1
    if offset >= end:
        del waited[partition]
