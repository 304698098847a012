"""The words of `connectors.log` over the simulated broker: for real workers, closers and edges.

Owns what the client library owns: positions, pauses, a delivery deadline, the order of being told of
partitions. One for one life of one process; all of it runs in that process.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from connectors.log import Appended, Record
from tests.simulation.broker import Broker, Place, Rec
from tests.simulation.clients import Member
from tests.simulation.endpoints import Sender
from tests.simulation.groups import Group, Joined
from topics.errors import LogUnavailable
from topics.topic import Topic

BATCH_MAX: Final = 256
DELIVERY_S_MAX: Final = 10.0
START_S_MAX: Final = 30.0
Deliver = Callable[[list[Record]], None]
Revoked = Callable[[list[Place]], None]


class Words:
    """`inference.log.Log`, and the producer of edges and closers. `groups` by topic name."""

    def __init__(self, broker: Broker, groups: Mapping[str, Group], life: int) -> None:
        self._broker = broker
        self._groups = groups
        self._life = life
        self._sender = Sender(broker)

    def partitions(self, topic: Topic) -> int:
        return topic.ring.partitions(local=True)

    def send(
        self, topic: Topic, key: str, value: msgspec.Struct, partition: int | None = None
    ) -> "asyncio.Future[Appended]":
        loop = self._broker.loop
        future: asyncio.Future[Appended] = loop.create_future()
        sent = self._sender.send(topic, key, value, partition)

        def settle(done: "asyncio.Future[Rec]") -> None:
            timer.cancel()
            if future.done():
                return
            error = done.exception()
            if error is not None:
                future.set_exception(LogUnavailable(str(error)))
            else:
                rec = done.result()
                where = partition if partition is not None else -1
                future.set_result(Appended(where, rec.offset, rec.append_ms))

        def expire() -> None:
            if not future.done():
                future.set_exception(LogUnavailable(f"{topic.name}: no answer"))

        timer = loop.call_later(DELIVERY_S_MAX, expire)
        sent.add_done_callback(settle)
        return future

    def assigned(self, topic: Topic, partition: int, deliver: Deliver) -> "Reading":
        """From the partition's present end, without a group."""
        reading = Reading(self._broker, deliver)
        reading.take([(topic.name, partition)])
        return reading

    def grouped(
        self, topic: Topic, group: str, static_id: str, deliver: Deliver, revoked: Revoked
    ) -> "Reading":
        return Sharing(
            self._broker, self._groups[topic.name], static_id, self._life, deliver, revoked
        )

    def close(self, timeout_s: float) -> None:
        """Nothing is kept outside of the process."""


class Reading:
    """Some partitions, read from where they end when they are taken."""

    def __init__(self, broker: Broker, deliver: Deliver) -> None:
        self._broker = broker
        self._deliver = deliver
        self._ready = asyncio.Event()
        self._tenure = 0
        self._next: dict[Place, int] = {}
        self._paused: dict[Place, None] = {}
        self._fetching: dict[Place, None] = {}
        self.closed = False
        self.failed: str | None = None

    @property
    def assignment(self) -> frozenset[Place]:
        return frozenset(self._next)

    async def ready(self) -> None:
        await asyncio.wait_for(self._ready.wait(), START_S_MAX)

    def commit(self, offsets: Mapping[Place, int]) -> None:
        """Without a group there is nothing to commit."""

    def pause(self, places: list[Place]) -> None:
        self._paused.update(dict.fromkeys(places))

    def resume(self, places: list[Place]) -> None:
        for place in places:
            self._paused.pop(place, None)
            self._fetch(place)

    async def close(self) -> None:
        self.closed = True
        self._tenure += 1

    def take(self, places: list[Place]) -> None:
        self._broker.end_offsets(places, self._begin)

    def _begin(self, offsets: Mapping[Place, int]) -> None:
        self._next = {**offsets}
        self._ready.set()
        for place in offsets:
            self._fetch(place)

    def _fetch(self, place: Place) -> None:
        offset, tenure = self._next.get(place), self._tenure
        if offset is None or self.closed or place in self._fetching or place in self._paused:
            return
        self._fetching[place] = None

        def read(result: tuple[list[Rec], int]) -> None:
            if tenure != self._tenure:
                return
            self._fetching.pop(place, None)
            if place in self._paused:
                return  # dropped, and fetched again
            recs, self._next[place] = result
            if recs:
                self._deliver([_record(place, rec) for rec in recs])
            self._fetch(place)

        self._broker.fetch(place, offset, BATCH_MAX, read)


class Sharing(Reading):
    """A static member of a group, from what the group committed."""

    def __init__(
        self,
        broker: Broker,
        group: Group,
        name: str,
        life: int,
        deliver: Deliver,
        revoked: Revoked,
    ) -> None:
        super().__init__(broker, deliver)
        self._group = group
        self._revoked = revoked
        self._member = Member(
            broker, group, name, life, self._joined, self._left, self._fenced, forgiving=True
        )
        self._member.start()

    def commit(self, offsets: Mapping[Place, int]) -> None:
        held = {place: offset for place, offset in offsets.items() if place in self._next}
        if held:
            self._member.commit(held, lambda _: None)

    async def close(self) -> None:
        await super().close()
        self._member.leave()

    async def _left(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        if self._next and not self.closed:
            self._revoked(list(self._next))
        self._tenure += 1
        self._next, self._paused, self._fetching = {}, {}, {}

    def _joined(self, joined: Joined, _: float) -> None:
        self._give_up()
        tenure = self._tenure

        def begin(offsets: Mapping[Place, int]) -> None:
            if tenure == self._tenure:
                self._begin(offsets)

        self._group.fetch_committed(joined.places, begin)

    def _fenced(self) -> None:
        self.failed = "another process has this member's name"


def _record(place: Place, rec: Rec) -> Record:
    key = rec.key.decode("utf-8", "replace")
    return Record(place[0], place[1], rec.offset, rec.append_ms, key, rec.value)
