"""A log in memory with the words of `connectors.log`: for tests that stop its clock or its acks.

Keys find their partitions, values pass the wire format, groups share by range, commits decide where a
member begins. A `stalled` log appends nothing; a send that waits for 10 s of its loop's time is unknown.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping

import msgspec

from connectors.log import Appended, Record
from topics import wire
from topics.errors import LogUnavailable
from topics.partition import partition_of
from topics.topic import Topic

Place = tuple[str, int]
Deliver = Callable[[list[Record]], None]
Revoked = Callable[[list[Place]], None]
DELIVERY_S_MAX = 10.0


class LogDouble:
    """`now_ms` is the broker's clock."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._records: defaultdict[Place, list[Record]] = defaultdict(list)
        self._readers: list[ReaderDouble] = []
        self._waiting: list[tuple[Record, asyncio.Future[Appended]]] = []
        self.committed: dict[tuple[str, Place], int] = {}
        self.stalled = False
        self.acks_lost = False
        """Appends, and says that it is unknown."""

    def partitions(self, topic: Topic) -> int:
        return topic.ring.partitions(local=True)

    def records(self, topic: Topic) -> list[Record]:
        """Everything in the topic, by append time."""
        found = [r for p, rs in self._records.items() if p[0] == topic.name for r in rs]
        return sorted(found, key=lambda record: record.append_ms)

    def send(
        self, topic: Topic, key: str, value: msgspec.Struct, partition: int | None = None
    ) -> "asyncio.Future[Appended]":
        if partition is None:
            partition = partition_of(key, self.partitions(topic))
        record = Record(topic.name, partition, -1, 0, key, wire.encode(value))
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Appended] = loop.create_future()
        self._waiting.append((record, future))
        loop.call_later(DELIVERY_S_MAX, self._expire, record, future)
        loop.call_soon(self.flow)
        return future

    def raw(self, topic: Topic, key: str, value: bytes | None) -> None:
        """Appends bytes that no producer of ours would."""
        place = (topic.name, partition_of(key, self.partitions(topic)))
        self._append(Record(*place, -1, 0, key, value))

    def flow(self) -> None:
        """Appends what waits, unless stalled."""
        while self._waiting and not self.stalled:
            record, future = self._waiting.pop(0)
            appended = self._append(record)
            if future.done():
                continue
            if self.acks_lost:
                future.set_exception(LogUnavailable("acknowledgement lost"))
            else:
                future.set_result(appended)

    def assigned(self, topic: Topic, partition: int, deliver: Deliver) -> "ReaderDouble":
        reader = ReaderDouble(self, None, topic, deliver, lambda _: None)
        place = (topic.name, partition)
        reader.take_over({place: len(self._records[place])})
        self._readers.append(reader)
        return reader

    def grouped(
        self, topic: Topic, group: str, static_id: str, deliver: Deliver, revoked: Revoked
    ) -> "ReaderDouble":
        reader = ReaderDouble(self, group, topic, deliver, revoked)
        self._readers.append(reader)
        self.share(group, topic)
        return reader

    def close(self, timeout_s: float) -> None:
        """Nothing is kept outside this process."""

    def share(self, group: str, topic: Topic) -> None:
        """A rebalance: everybody gives up everything, then ranges are handed out anew."""
        members = [r for r in self._readers if r.group == group and not r.closed]
        for member in members:
            member.give_up()
        count = self.partitions(topic)
        for index, member in enumerate(members):
            each, rest = divmod(count, len(members))
            first = index * each + min(index, rest)
            places = [(topic.name, p) for p in range(first, first + each + (index < rest))]
            member.take_over({p: self.committed.get((group, p), 0) for p in places})

    def leave(self, reader: "ReaderDouble") -> None:
        self._readers.remove(reader)

    def since(self, place: Place, offset: int) -> list[Record]:
        return self._records[place][offset:]

    def _append(self, record: Record) -> Appended:
        records = self._records[(record.topic, record.partition)]
        placed = msgspec.structs.replace(record, offset=len(records), append_ms=self._now_ms())
        records.append(placed)
        for reader in self._readers:
            reader.wake()
        return Appended(placed.partition, placed.offset, placed.append_ms)

    def _expire(self, record: Record, future: "asyncio.Future[Appended]") -> None:
        if not future.done():
            self._waiting = [(r, f) for r, f in self._waiting if f is not future]
            future.set_exception(LogUnavailable(f"{record.topic}: no answer"))


class ReaderDouble:
    """Delivers on the loop, after whatever runs now."""

    def __init__(
        self,
        log: LogDouble,
        group: str | None,
        topic: Topic,
        deliver: Deliver,
        revoked: Revoked,
    ) -> None:
        self._log = log
        self._topic = topic
        self._deliver = deliver
        self._revoked = revoked
        self._next: dict[Place, int] = {}
        self._ready = asyncio.Event()
        self._paused: set[Place] = set()
        self.group = group
        self.failed: str | None = None
        self.closed = False

    @property
    def assignment(self) -> frozenset[Place]:
        return frozenset(self._next)

    async def ready(self) -> None:
        await self._ready.wait()

    def commit(self, offsets: Mapping[Place, int]) -> None:
        for place, offset in offsets.items():
            if self.group is not None and place in self._next:
                self._log.committed[(self.group, place)] = offset

    def pause(self, places: list[Place]) -> None:
        self._paused.update(places)

    def resume(self, places: list[Place]) -> None:
        self._paused.difference_update(places)
        self.wake()

    async def close(self) -> None:
        self.closed = True
        if self in self._log._readers:
            self._log.leave(self)
        if self.group is not None:
            self._log.share(self.group, self._topic)

    def give_up(self) -> None:
        if self._next:
            self._revoked(list(self._next))
        self._next, self._paused = {}, set()

    def take_over(self, begins: Mapping[Place, int]) -> None:
        self._next = dict(begins)
        self._ready.set()
        self.wake()

    def wake(self) -> None:
        asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        for place, offset in list(self._next.items()):
            if self.closed or place in self._paused or place not in self._next:
                continue
            records = self._log.since(place, offset)
            if records:
                self._next[place] = records[-1].offset + 1
                self._deliver(records)
