"""The log as a worker sees it: records out, records in. Owns the seam between worker and clients.

Nothing here decides; a test puts its own log behind the same words.
"""

import asyncio
import secrets
import traceback
import uuid
from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from connectors.log import Appended, LogProducer, LogReader, Record
from inference import metrics
from topics.errors import LogUnavailable
from topics.runtime.clock import BrokerClock, wall_ms
from topics.runtime.settings import KafkaSettings
from topics.topic import Topic

Place = tuple[str, int]
"""Topic name and partition."""
Deliver = Callable[[list[Record]], None]
Revoked = Callable[[list[Place]], None]


class Reader(Protocol):
    """What is used of `connectors.log.LogReader`."""

    @property
    def failed(self) -> str | None:
        """Why it can never read again."""

    @property
    def assignment(self) -> frozenset[Place]:
        """The partitions held now."""

    async def ready(self) -> None:
        """Returns with the first assignment. Raises TimeoutError."""

    def commit(self, offsets: Mapping[Place, int]) -> None: ...

    def pause(self, places: list[Place]) -> None: ...

    def resume(self, places: list[Place]) -> None: ...

    async def close(self) -> None: ...


class Log(Protocol):
    """Producer and readers of one process."""

    def partitions(self, topic: Topic) -> int:
        """How many the topic has here."""

    def send(self, topic: Topic, key: str, value: msgspec.Struct) -> "asyncio.Future[Appended]":
        """Ends with the record's place, or with LogUnavailable: whether it is there is unknown."""

    def assigned(self, topic: Topic, partition: int, deliver: Deliver) -> Reader:
        """From the partition's present end, without a group."""

    def grouped(
        self, topic: Topic, group: str, static_id: str, deliver: Deliver, revoked: Revoked
    ) -> Reader:
        """As a member of a group; `revoked` runs before partitions are given up."""

    def close(self, timeout_s: float) -> None: ...


class KafkaLog:
    """The real log: one producer, any number of readers. `fatal` ends the process."""

    def __init__(
        self,
        settings: KafkaSettings,
        loop: asyncio.AbstractEventLoop,
        fatal: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._loop = loop
        self._producer = LogProducer(settings.bootstrap, settings.local, loop, fatal)

    def partitions(self, topic: Topic) -> int:
        return topic.ring.partitions(self._settings.local)

    def send(self, topic: Topic, key: str, value: msgspec.Struct) -> "asyncio.Future[Appended]":
        return self._producer.send(topic, key, value)

    def assigned(self, topic: Topic, partition: int, deliver: Deliver) -> Reader:
        return LogReader.assigned(self._settings.bootstrap, self._loop, topic, partition, deliver)

    def grouped(
        self, topic: Topic, group: str, static_id: str, deliver: Deliver, revoked: Revoked
    ) -> Reader:
        return LogReader.grouped(
            self._settings.bootstrap, self._loop, [topic], group, static_id, deliver, revoked
        )

    def close(self, timeout_s: float) -> None:
        self._producer.close(timeout_s)


class Mint(msgspec.Struct, frozen=True):
    """Sources of ids and times, so that a test can know them."""

    event_id: Callable[[], str]
    """A fresh identity for an event of ours."""
    boot_id: Callable[[], str]
    """What tells one life of this process from all others."""
    wall_ms: Callable[[], int]
    """The worker's own clock, for metering only."""


def real_mint() -> Mint:
    return Mint(
        event_id=lambda: str(uuid.uuid4()), boot_id=lambda: secrets.token_hex(4), wall_ms=wall_ms
    )


class Outgoing:
    """Sends for the worker; learns broker time from every delivery report."""

    def __init__(
        self, log: Log, broker: BrokerClock, clock: Callable[[], float], mint: Mint
    ) -> None:
        self.mint = mint
        self._log = log
        self._broker = broker
        self._clock = clock

    def tell(
        self,
        topic: Topic,
        key: str,
        value: msgspec.Struct,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Sends without waiting: who needs an answer asks again by itself."""

        def report(future: "asyncio.Future[Appended]") -> None:
            if future.cancelled() or future.exception() is not None:
                metrics.SENDS_FAILED.inc()
                return
            self._broker.report(future.result().append_ms, self._clock())
            if acknowledged is not None:
                acknowledged()

        self._log.send(topic, key, value).add_done_callback(report)

    async def ensure(self, topic: Topic, key: str, value: msgspec.Struct) -> bool:
        """True once the record is in the log; False where that is unknown: send it again."""
        try:
            place = await self._log.send(topic, key, value)
        except LogUnavailable:
            metrics.SENDS_FAILED.inc()
            return False
        self._broker.report(place.append_ms, self._clock())
        return True


def describe(error: BaseException) -> str:
    """Where a fault of ours was raised. Never its message, which may quote private text."""
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{at}"
