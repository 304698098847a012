"""Readers and a producer for the processes that are no machines. Owns positions; decides nothing.

`Tail` reads one partition from its end, as an edge or a worker reads what is addressed to it; `Shared`
reads as a member of a group and commits a low-water mark. Both deliver records in order.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from tests.simulation.broker import Broker, Draft, Place, Rec
from tests.simulation.clients import Member, Producer
from tests.simulation.groups import Group, Joined
from topics import wire
from topics.partition import partition_of
from topics.topic import Topic

COMMIT_S: Final = 1.0
FETCHED_MAX: Final = 64
Deliver = Callable[[Place, Rec], None]


class Sender:
    """Sends typed values, as `connectors.log.LogProducer` does."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._producer = Producer(broker, lambda: True)

    def send(
        self, topic: Topic, key: str, value: msgspec.Struct, partition: int | None = None
    ) -> "asyncio.Future[Rec]":
        where = partition
        if where is None:
            where = partition_of(key, topic.ring.partitions(local=True))
        future = self._producer.send((topic.name, where), Draft(key.encode(), wire.encode(value)))
        future.add_done_callback(_looked_at)
        return future


def _looked_at(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()


class Tail:
    """One partition from its present end."""

    def __init__(self, broker: Broker, place: Place, deliver: Deliver) -> None:
        self._broker = broker
        self._place = place
        self._deliver = deliver
        self.ready = False
        self.closed = False
        broker.end_offsets([place], self._begin)

    def _begin(self, ends: dict[Place, int]) -> None:
        self.ready = True
        self._next(ends[self._place])

    def _next(self, offset: int) -> None:
        if not self.closed:
            self._broker.fetch(self._place, offset, FETCHED_MAX, self._read)

    def _read(self, result: tuple[list[Rec], int]) -> None:
        if self.closed:
            return
        for rec in result[0]:
            self._deliver(self._place, rec)
        self._next(result[1])


class Shared:
    """A member of a group; `done(place, offset)` tells that a record needs no repeat."""

    def __init__(
        self, broker: Broker, group: Group, name: str, life: int, deliver: Deliver
    ) -> None:
        self._broker = broker
        self._group = group
        self._deliver = deliver
        self._tenure = 0
        self._open: dict[Place, dict[int, None]] = {}
        self._read_to: dict[Place, int] = {}
        self._committed: dict[Place, int] = {}
        self.fenced = False
        self._member = Member(
            broker, group, name, life, self._joined, self._left, self._fence, forgiving=True
        )
        self._member.start()
        broker.loop.call_later(COMMIT_S, self._commit)

    def done(self, place: Place, offset: int) -> None:
        self._open.get(place, {}).pop(offset, None)

    def _fence(self) -> None:
        self.fenced = True

    async def _left(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._tenure += 1
        self._open.clear()
        self._read_to.clear()

    def _joined(self, joined: Joined, _: float) -> None:
        self._forget()
        tenure = self._tenure

        def begin(offsets: dict[Place, int]) -> None:
            if tenure == self._tenure:
                for place, offset in offsets.items():
                    self._open[place], self._read_to[place] = {}, offset
                    self._next(tenure, place, offset)

        self._group.fetch_committed(joined.places, begin)

    def _next(self, tenure: int, place: Place, offset: int) -> None:
        def read(result: tuple[list[Rec], int]) -> None:
            if tenure != self._tenure:
                return
            recs, upto = result
            for rec in recs:
                self._open[place][rec.offset] = None
                self._read_to[place] = rec.offset + 1
                self._deliver(place, rec)
            self._read_to[place] = upto
            self._next(tenure, place, upto)

        self._broker.fetch(place, offset, FETCHED_MAX, read)

    def _commit(self) -> None:
        wanted = {}
        for place, read_to in self._read_to.items():
            low = next(iter(self._open[place]), read_to)
            if low and low != self._committed.get(place):
                wanted[place] = low
        if wanted:

            def reply(good: bool) -> None:
                if good:
                    self._committed.update(wanted)

            self._member.commit(wanted, reply)
        self._broker.loop.call_later(COMMIT_S, self._commit)
