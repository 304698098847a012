"""Reads records on a thread of its own and delivers them in batches to the loop.

Owns one librdkafka consumer. Never commits by itself: offsets come from whoever knows what is done.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from topics.topic import Topic

_POLL_S: Final = 0.1
_BATCH_MAX: Final = 256
_BATCHES_AHEAD_MAX: Final = 8
_START_S_MAX: Final = 10.0

Place = tuple[str, int]
Deliver = Callable[[list["Record"]], None]
Revoked = Callable[[list[Place]], None]


class Record(msgspec.Struct, frozen=True):
    """One record as read; `append_ms` is the broker's append time in epoch milliseconds."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    key: str
    value: bytes | None


def _settings(bootstrap: str, more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "fetch.wait.max.ms": 1_000,
        "fetch.error.backoff.ms": 50,
        "fetch.queue.backoff.ms": 10,
        "queued.min.messages": 1_000,
        "queued.max.messages.kbytes": 16_384,
        "socket.nagle.disable": True,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 1_000,
        "allow.auto.create.topics": False,
        "log_level": 2,  # an absent broker shows in readiness, not in ten lines a second
        **more,
    }


class LogReader:
    """Made by `assigned` or `grouped`; `failed` is set to a reason once it can never read again."""

    def __init__(
        self,
        consumer: Consumer,
        loop: asyncio.AbstractEventLoop,
        deliver: Deliver,
        revoked: Revoked | None,
    ) -> None:
        self._consumer = consumer
        self._loop = loop
        self._deliver = deliver
        self._revoked = revoked
        self._ahead = threading.BoundedSemaphore(_BATCHES_AHEAD_MAX)
        self._closing = threading.Event()
        self._ready = asyncio.Event()
        self._lock = threading.Lock()
        self._to_commit: dict[Place, int] = {}
        self._to_pause: dict[Place, bool] = {}
        self.failed: str | None = None
        self.assignment: frozenset[Place] = frozenset()
        self._thread = threading.Thread(target=self._run, name="log-reader", daemon=True)

    @classmethod
    def assigned(
        cls,
        bootstrap: str,
        loop: asyncio.AbstractEventLoop,
        topic: Topic,
        partition: int,
        deliver: Deliver,
    ) -> "LogReader":
        """Reads one partition from its present end, without a group; await `ready` first."""
        consumer = Consumer(_settings(bootstrap, {"group.id": "milena-assigned"}))
        reader = cls(consumer, loop, deliver, None)
        place = TopicPartition(topic.name, partition)

        def start() -> None:
            _, end = consumer.get_watermark_offsets(place, timeout=_START_S_MAX)
            consumer.assign([TopicPartition(topic.name, partition, end)])
            reader._note_assignment([place])

        reader._start = start
        reader._thread.start()
        return reader

    @classmethod
    def grouped(
        cls,
        bootstrap: str,
        loop: asyncio.AbstractEventLoop,
        topics: list[Topic],
        group: str,
        static_id: str | None,
        deliver: Deliver,
        revoked: Revoked,
    ) -> "LogReader":
        """Reads as a group member; `revoked` runs on the loop before partitions are given up."""
        more: dict[str, Any] = {
            "group.id": group,
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 3_000,
            "max.poll.interval.ms": 60_000,
        }
        if static_id is not None:
            more["group.instance.id"] = static_id
        consumer = Consumer(_settings(bootstrap, more))
        reader = cls(consumer, loop, deliver, revoked)

        def start() -> None:
            consumer.subscribe(
                [topic.name for topic in topics],
                on_assign=lambda _, places: reader._note_assignment(places),
                on_revoke=lambda _, places: reader._give_up(places),
                on_lost=lambda _, places: reader._give_up(places, ours=False),
            )

        reader._start = start
        reader._thread.start()
        return reader

    _start: Callable[[], None]

    async def ready(self) -> None:
        """Returns once the reader has its first assignment.

        Raises:
            TimeoutError: the broker did not answer in time; `failed` may say why.
        """
        await asyncio.wait_for(self._ready.wait(), _START_S_MAX + 20)

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Next offsets to read, applied from the reader's thread. Never goes back."""
        with self._lock:
            for place, offset in offsets.items():
                self._to_commit[place] = max(offset, self._to_commit.get(place, -1))

    def pause(self, places: list[Place]) -> None:
        with self._lock:
            self._to_pause.update(dict.fromkeys(places, True))

    def resume(self, places: list[Place]) -> None:
        with self._lock:
            self._to_pause.update(dict.fromkeys(places, False))

    async def close(self) -> None:
        """Commits what was handed in, leaves the group and ends the thread."""
        self._closing.set()
        await asyncio.to_thread(self._thread.join, 10.0)

    def _run(self) -> None:
        try:
            self._start()
            while not self._closing.is_set():
                self._apply()
                batch = self._poll()
                if batch:
                    self._hand_over(batch)
            self._commit_now()
        except (KafkaException, RuntimeError) as error:
            self.failed = str(error)
        finally:
            self._consumer.close()

    def _poll(self) -> list[Record]:
        # `consume` waits until its batch is full: take one record, then what is there already.
        first = self._consumer.poll(_POLL_S)
        if first is None:
            return []
        return [
            record
            for message in (first, *self._consumer.consume(_BATCH_MAX - 1, timeout=0))
            if (record := self._record(message)) is not None
        ]

    def _record(self, message: Message) -> Record | None:
        error = message.error()
        if error is not None:
            self._judge(error)
            return None
        key = message.key() or b""
        return Record(
            message.topic() or "",
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            key.decode("utf-8", "replace") if isinstance(key, bytes) else key,
            message.value(),
        )

    def _judge(self, error: KafkaError) -> None:
        gone = {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._FENCED}
        if error.fatal() or error.code() in gone:
            raise KafkaException(error)

    def _hand_over(self, batch: list[Record]) -> None:
        while not self._ahead.acquire(timeout=_POLL_S):
            if self._closing.is_set():
                return

        def run() -> None:
            try:
                self._deliver(batch)
            finally:
                self._ahead.release()

        self._loop.call_soon_threadsafe(run)

    def _apply(self) -> None:
        with self._lock:
            pauses, self._to_pause = self._to_pause, {}
        held = self.assignment
        for paused, change in ((True, self._consumer.pause), (False, self._consumer.resume)):
            places = [
                TopicPartition(*place)
                for place, wanted in pauses.items()
                if wanted is paused and place in held
            ]
            if places:
                change(places)
        self._commit_now(asynchronous=True)

    def _commit_now(self, asynchronous: bool = False) -> None:
        with self._lock:
            offsets, self._to_commit = self._to_commit, {}
        places = [
            TopicPartition(topic, partition, offset)
            for (topic, partition), offset in offsets.items()
            if (topic, partition) in self.assignment
        ]
        if not places:
            return
        try:
            self._consumer.commit(offsets=places, asynchronous=asynchronous)
        except KafkaException as error:
            # A lost commit only means that records come again; whoever reads them is idempotent.
            if error.args[0].fatal():
                raise

    def _note_assignment(self, places: list[TopicPartition]) -> None:
        self.assignment = frozenset((place.topic, place.partition) for place in places)
        if places:
            self._loop.call_soon_threadsafe(self._ready.set)

    def _give_up(self, places: list[TopicPartition], *, ours: bool = True) -> None:
        """Tells of partitions that go; those lost already (`ours` false) can be committed no more."""
        lost = [(place.topic, place.partition) for place in places]
        done = threading.Event()

        def tell() -> None:
            try:
                if self._revoked is not None:
                    self._revoked(lost)
            finally:
                done.set()

        if not self._closing.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(tell)
            done.wait(timeout=2.0)
        if ours:
            self._commit_now()
        self.assignment = self.assignment - frozenset(lost)
