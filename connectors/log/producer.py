"""Produces typed records and tells when the broker has them.

Owns one librdkafka producer and its poll thread. Never leaves a partition to a client and
never retries by itself past the delivery deadline: an unknown outcome is the caller's to settle.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connectors.log.mailbox import Mailbox
from topics import wire
from topics.errors import LogUnavailable
from topics.partition import partition_of
from topics.topic import Topic

DELIVERY_MS_MAX: Final = 10_000
_QUEUE_MESSAGES_MAX: Final = 100_000
_POLL_S: Final = 0.1


class Appended(msgspec.Struct, frozen=True):
    """Where and when the broker appended a record; time in epoch milliseconds of the broker."""

    partition: int
    offset: int
    append_ms: int


Report = tuple["asyncio.Future[Appended]", Appended | KafkaError]


class LogProducer:
    """`fatal(reason)` is called on the loop once the producer can never send again."""

    def __init__(
        self,
        bootstrap: str,
        local: bool,
        loop: asyncio.AbstractEventLoop,
        fatal: Callable[[str], None],
    ) -> None:
        self._local = local
        self._loop = loop
        self._fatal = fatal
        self._reports: Mailbox[Report] = Mailbox(loop, self._settle)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 0,
                "delivery.timeout.ms": DELIVERY_MS_MAX,
                "request.timeout.ms": 5_000,
                "queue.buffering.max.messages": _QUEUE_MESSAGES_MAX,
                "socket.nagle.disable": True,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 1_000,
                "error_cb": self._on_error,
                "log_level": 2,
            }
        )
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="log-producer", daemon=True)
        self._thread.start()

    def send(
        self, topic: Topic, key: str, value: msgspec.Struct, partition: int | None = None
    ) -> "asyncio.Future[Appended]":
        """Hands one record over; the future ends with its place or with LogUnavailable."""
        future: asyncio.Future[Appended] = self._loop.create_future()
        where = (
            partition_of(key, topic.ring.partitions(self._local))
            if partition is None
            else partition
        )

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self._reports.put((future, error))
                return
            place = Appended(
                _known(message.partition()), _known(message.offset()), message.timestamp()[1]
            )
            self._reports.put((future, place))

        try:
            self._producer.produce(
                topic.name,
                key=key.encode(),
                value=wire.encode(value),
                partition=where,
                on_delivery=delivered,
            )
        except (BufferError, KafkaException) as error:
            future.set_exception(LogUnavailable(f"{topic.name}: {error}"))
        return future

    def close(self, timeout_s: float) -> None:
        """Waits for what is in flight, `timeout_s` seconds at most."""
        self._producer.flush(timeout_s)
        self._closing.set()
        self._thread.join(timeout=2 * _POLL_S + 1)

    def partition_counts(self, timeout_s: float = 5.0) -> dict[str, int]:
        """Topic name -> partition count as the broker has it."""
        listed = self._producer.list_topics(timeout=timeout_s)
        return {name: len(meta.partitions) for name, meta in listed.topics.items()}

    def _poll(self) -> None:
        while not self._closing.is_set():
            self._producer.poll(_POLL_S)

    def _settle(self, reports: list[Report]) -> None:
        for future, outcome in reports:
            if future.done():
                continue  # the caller gave up waiting
            if isinstance(outcome, Appended):
                future.set_result(outcome)
            else:
                future.set_exception(LogUnavailable(outcome.str()))

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._fatal, error.str())


def _known(value: Any) -> int:
    assert isinstance(value, int), "a delivered record has a place"
    return value
