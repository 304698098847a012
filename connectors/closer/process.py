"""The closer's process: reads `control.streams`, applies, commits what is done.

Owns the wiring, the retries and the readiness answer. A record is committed once it was applied,
or dropped and counted; it never holds up another generation.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec
import structlog

from connectors.closer import metrics
from connectors.closer.apply import StreamMoved, apply
from connectors.closer.lanes import Lanes
from connectors.closer.low_water import LowWater, Place
from connectors.closer.settings import CloserSettings
from connectors.errors import RedisAway, StoreUnavailable, Unfit
from connectors.log import Appended, Record
from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.policy import check_policy
from connectors.store.store import Store
from schemas.generated.types import RunsInbox, StreamControl
from topics import wire
from topics.errors import InvalidRecord, LogUnavailable, MilenaError, NotSupported
from topics.registry import RUNS_INBOX
from topics.runtime.clock import wall_ms
from topics.topic import Topic

GROUP: Final = "milena-closer"
FINISH_S_MAX: Final = 5.0
# A key that no hash can be: asks the store for an answer, not for a row.
_NO_KEY: Final = b"readiness"

_AGAIN: Final = (RedisAway, StoreUnavailable, LogUnavailable, StreamMoved)

_log = structlog.get_logger()


class Producer(Protocol):
    """What is used of `connectors.log.LogProducer`."""

    def send(self, topic: Topic, key: str, value: msgspec.Struct) -> "asyncio.Future[Appended]":
        """Ends with the record's place, or with LogUnavailable."""


class Reader(Protocol):
    """What is used of `connectors.log.LogReader`."""

    @property
    def failed(self) -> str | None: ...

    @property
    def assignment(self) -> frozenset[Place]: ...

    def commit(self, offsets: Mapping[Place, int]) -> None: ...

    def pause(self, places: list[Place]) -> None: ...

    def resume(self, places: list[Place]) -> None: ...

    async def close(self) -> None: ...


Join = Callable[[Callable[[list[Record]], None], Callable[[list[Place]], None]], Reader]
"""(deliver, revoked) -> a member of the closers' group on `control.streams`."""


class Closer:
    """One process's work, from reading to commit. Used from one event loop."""

    def __init__(
        self,
        settings: CloserSettings,
        calls: Calls,
        store: Store,
        producer: Producer,
        *,
        jitter: Callable[[], float] = random.random,
        wall_ms: Callable[[], int] = wall_ms,
    ) -> None:
        self._jitter = jitter
        self._wall_ms = wall_ms
        self._settings = settings
        self._calls = calls
        self._streams = StreamCloser(calls)
        self._store = store
        self._producer = producer
        self._marks = LowWater()
        self._lanes: Lanes[Record] = Lanes(self._work, settings.in_flight_max, self._stop_with)
        self._paused: list[Place] = []
        self._reader: Reader | None = None
        self._missing: dict[str, str] = {"log": "not joined yet"}
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done, with an error, once the process cannot go on."""

    def readiness(self) -> dict[str, str]:
        """What is missing -> why; called from another thread."""
        return dict(self._missing)

    @property
    def in_flight(self) -> int:
        """Generations worked on now."""
        return self._lanes.in_flight

    def committable(self) -> Mapping[Place, int]:
        """Next offset to read of each partition whose mark moved since the last call."""
        return self._marks.news()

    def fail(self, reason: str) -> None:
        self._stop_with(RuntimeError(reason))

    async def run(self, join: Join, stop: asyncio.Event) -> None:
        """Until `stop`; raises what made it impossible to go on."""
        self._reader = join(self.deliver, self.revoked)
        stopped = asyncio.create_task(stop.wait())
        beside = [asyncio.create_task(self._commit()), asyncio.create_task(self._look())]
        try:
            ends: set[asyncio.Future[Any]] = {stopped, self.ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if self.ended.done():
                self.ended.result()
        finally:
            for task in (stopped, *beside):
                task.cancel()
            await self._lanes.finish(FINISH_S_MAX)
            self._reader.commit(self.committable())
            await self._reader.close()

    def deliver(self, records: list[Record]) -> None:
        """Takes a batch on; pauses reading where too much waits."""
        for record in records:
            self._marks.taken((record.topic, record.partition), record.offset)
            self._lanes.put(record.key, record)
        if self._lanes.waiting > self._settings.waiting_max and self._reader is not None:
            self._paused = [*self._reader.assignment]
            self._reader.pause(self._paused)

    def revoked(self, places: list[Place]) -> None:
        """Commits what is done; what is in flight goes on and is harmless twice."""
        if self._reader is not None:
            self._reader.commit(self.committable())
        for place in places:
            self._marks.forget(place)

    async def _commit(self) -> None:
        while True:
            await asyncio.sleep(self._settings.commit_every_s)
            metrics.IN_FLIGHT.set(self._lanes.in_flight)
            metrics.WAITING.set(self._lanes.waiting)
            if self._reader is None:
                continue
            if moved := self.committable():
                self._reader.commit(moved)
            if self._paused and self._lanes.waiting <= self._settings.waiting_max // 2:
                self._reader.resume(self._paused)
                self._paused = []

    async def _look(self) -> None:
        """Keeps the readiness answer fresh; ends the process once the log can never be read."""
        while True:
            missing: dict[str, str] = {}
            try:
                await check_policy(self._calls)
            except (RedisAway, Unfit) as error:
                missing["redis"] = str(error)
            try:
                await self._store.key(_NO_KEY)
            except (StoreUnavailable, Unfit) as error:
                missing["store"] = str(error)
            if self._reader is not None and self._reader.failed is not None:
                self._stop_with(RuntimeError(f"cannot read the log: {self._reader.failed}"))
            if self._reader is None or not self._reader.assignment:
                missing["log"] = "no partition assigned"
            self._missing = missing
            await asyncio.sleep(self._settings.look_every_s)

    async def _work(self, record: Record) -> None:
        try:
            order = wire.decode(StreamControl, record.value)
        except InvalidRecord as error:
            metrics.ORDERS.labels("unknown", "invalid").inc()
            _log.error(
                "order_invalid",
                reason=error.reason,
                partition=record.partition,
                offset=record.offset,
            )
        else:
            kind = type(order.body).__name__
            outcome = await self._try(order, kind)
            metrics.ORDERS.labels(kind, outcome).inc()
            metrics.LAG.labels(kind).observe(max(0, self._wall_ms() - record.append_ms) / 1_000)
        self._marks.done((record.topic, record.partition), record.offset)

    async def _try(self, order: StreamControl, kind: str) -> str:
        pause_s = self._settings.pause_s_first
        for attempt in range(1, self._settings.tries_max + 1):
            try:
                return await apply(self._streams, self._store, self._tell, order)
            except _AGAIN as error:
                metrics.RETRIES.labels(type(error).__name__).inc()
                if attempt == self._settings.tries_max:
                    self._dropped(order, kind, error)
                    return "dropped"
            except NotSupported as error:
                self._dropped(order, kind, error)
                return "not_supported"
            except MilenaError as error:  # refused by Redis or the store: no try would help
                self._dropped(order, kind, error)
                return "refused"
            await asyncio.sleep(pause_s * (0.5 + self._jitter() / 2))
            pause_s = min(2 * pause_s, self._settings.pause_s_max)
        raise AssertionError("the last try returns")

    def _dropped(self, order: StreamControl, kind: str, error: MilenaError) -> None:
        """Said and counted: runs repeats what still matters, by Due or by Probe."""
        _log.warning(
            "order_dropped",
            kind=kind,
            generation_id=order.generation_id,
            number=order.number,
            cause=type(error).__name__,
            reason=str(error),
        )

    async def _tell(self, runs_key: str, event: RunsInbox) -> None:
        await self._producer.send(RUNS_INBOX, runs_key, event)

    def _stop_with(self, error: BaseException) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
