"""Puts on an inbox what should not be there: unreadable records, too large ones, aborted transactions, and
everything once more. Owns its producers; reads nothing but what it repeats."""

from __future__ import annotations

import uuid
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ops.log_scan import records
from schemas.generated.types import RunFact
from topics import wire
from topics.topic import Topic

SEND_S_MAX: Final = 20.0
LARGE_BYTES: Final = 2 * 1_048_576
FOREIGN: Final = wire.encode(
    RunFact(
        event_id="0",
        at=0,
        generation_id="gen_0",
        user_id="usr_0",
        model="none",
        model_version="none",
        pool="none",
        epoch=0,
    )
)
UNREADABLE: Final = (
    b"",
    b"not a frame at all",
    b"\0\0\0\xff\xffa schema that never was",
    FOREIGN,
    FOREIGN[:-3],
)
"""No frame, no schema, another record's, and one cut short."""


def unreadable(bootstrap: str, inbox: Topic) -> int:
    """One of each in every partition, and a null value. How many cannot be read, nulls not counted."""
    producer, failed = _producer(bootstrap), _Failed()
    partitions = range(inbox.ring.partitions(local=True))
    for partition in partitions:
        for number, value in enumerate((*UNREADABLE, None)):
            key = f"poison.{partition}.{number}"
            producer.produce(
                inbox.name, key=key, value=value, partition=partition, on_delivery=failed
            )
    _flush(producer, failed)
    return len(partitions) * len(UNREADABLE)


def too_large(bootstrap: str, inbox: Topic) -> bool:
    """Whether the broker refused a record larger than the topic takes."""
    producer = _producer(bootstrap, **{"message.max.bytes": 2 * LARGE_BYTES})
    failed = _Failed()
    producer.produce(inbox.name, key="poison.large", value=b"x" * LARGE_BYTES, on_delivery=failed)
    producer.flush(SEND_S_MAX)
    return failed.codes == [KafkaError.MSG_SIZE_TOO_LARGE]


def aborted(bootstrap: str, inbox: Topic) -> int:
    """A transaction over every partition that is aborted. How many records of it stay in the log."""
    producer = _producer(bootstrap, **{"transactional.id": f"drill-{uuid.uuid4().hex}"})
    failed = _Failed()
    producer.init_transactions(SEND_S_MAX)
    producer.begin_transaction()
    partitions = range(inbox.ring.partitions(local=True))
    for partition in partitions:
        producer.produce(
            inbox.name, key="poison", value=b"aborted", partition=partition, on_delivery=failed
        )
    _flush(producer, failed)
    producer.abort_transaction(SEND_S_MAX)
    return len(partitions)


def replay(bootstrap: str, inbox: Topic, since_ms: int) -> int:
    """Appends again every record since then, byte for byte, in order. How many."""
    producer, failed = _producer(bootstrap), _Failed()
    count = 0
    for read in list(records(bootstrap, [inbox], since_ms)):
        producer.produce(
            read.topic,
            key=read.key,
            value=read.value,
            partition=read.partition,
            on_delivery=failed,
        )
        count += 1
    _flush(producer, failed)
    return count


class _Failed:
    """What the broker did not take."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.codes.append(error.code())


def _producer(bootstrap: str, **more: Any) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True}
    return Producer({**settings, "log_level": 0, **more})


def _flush(producer: Producer, failed: _Failed) -> None:
    if producer.flush(SEND_S_MAX) or failed.codes:
        raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
