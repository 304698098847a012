"""A log in memory with the real shells on it: what a proof reads, made as the machines make it.

Owns no fold and no rule: records go through `processors.shell`, so that a proof of this world is a proof of
the shell. Tests then take records away, change them, or put others among them.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ops.log_scan import Read
from ops.verify.prove import Proof, Span, prove
from ops.verify.source import Extent
from processors.machine import Machine
from processors.metering.machine import metering_machine
from processors.outgoing import Outgoing
from processors.runs.machine import runs_machine
from processors.shell import Incoming, Sent, Shell
from processors.workers.machine import workers_machine
from schemas.generated.types import AccountsInbox, RunsInbox, Submit, WorkersInbox
from tests.processors.accounts import ACCOUNTS
from tests.processors.events import claim, closed, finished, heartbeat, submit
from tests.processors.story import T0_MS
from topics import wire
from topics.partition import partition_of
from topics.registry import ACCOUNTS_INBOX, BY_NAME, RUNS_INBOX, WORKERS_INBOX
from topics.topic import Topic

MACHINES: Final[dict[str, Machine[Any]]] = {
    "accounts": ACCOUNTS,
    "runs": runs_machine(),
    "workers": workers_machine(),
    "metering": metering_machine(),
}
TOPIC_ID: Final = "world"
EVER: Final = Span()
Place = tuple[str, int]


class Appended(msgspec.Struct):
    partition: int
    offset: int
    timestamp: int


class World:
    """Topics, and a shell for each machine that folds whatever stands in its inbox."""

    def __init__(self) -> None:
        self.records: defaultdict[Place, list[Read]] = defaultdict(list)
        self.starts: dict[Place, int] = {}
        """First offset kept, where retention took older ones."""
        self.now_ms = T0_MS
        self.taken: defaultdict[Place, int] = defaultdict(int)
        self.said: list[str] = []

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...] = (),
    ) -> Appended:
        self.now_ms += 1
        records = self.records[(topic, partition)]
        offset = records[-1].offset + 1 if records else self.starts.get((topic, partition), 0)
        records.append(Read(topic, partition, offset, self.now_ms, key.decode(), value, headers))
        return Appended(partition, offset, self.now_ms)

    def tell(self, topic: Topic, key: str, value: Any) -> None:
        """A record of a process that is no machine."""
        raw = value if isinstance(value, bytes) else wire.encode(value)
        partition = partition_of(key, topic.ring.partitions(local=True))
        self.append(topic.name, partition, key.encode(), raw)

    async def run(self) -> "World":
        """Lets the machines fold until nothing is left."""
        shells = {name: _Running(self, machine) for name, machine in MACHINES.items()}
        for running in shells.values():
            await running.start()
        while any([await running.fold() for running in shells.values()]):
            pass
        for running in shells.values():
            await running.stop()
        return self

    def prove(self, span: Span = EVER, machines: tuple[str, ...] = tuple(MACHINES)) -> Proof:
        chosen = [MACHINES[name] for name in machines]
        return prove(self, chosen, span, local=True, say=self.said.append)

    # What a proof needs of the log.

    def extents(self, topic: Topic) -> dict[int, Extent]:
        found = {}
        for partition in range(topic.ring.partitions(local=True)):
            place = (topic.name, partition)
            start, records = self.starts.get(place, 0), self.records.get(place, [])
            found[partition] = (start, records[-1].offset + 1 if records else start)
        return found

    def read(self, topic: Topic, extents: Mapping[int, Extent]) -> Iterator[Read]:
        for partition, (start, end) in extents.items():
            for read in self.records.get((topic.name, partition), []):
                if start <= read.offset < end:
                    yield read

    def committed(self, machine: str, partitions: int) -> dict[int, int]:
        inbox = MACHINES[machine].inbox.name
        return {partition: self.taken[(inbox, partition)] for partition in range(partitions)}

    # What tests do to it.

    def of(self, topic: Topic) -> list[Read]:
        return [
            read
            for place, reads in self.records.items()
            if place[0] == topic.name
            for read in reads
        ]

    def replace(self, old: Read, **changes: Any) -> Read:
        """The record with other bytes at its place."""
        records = self.records[(old.topic, old.partition)]
        new = msgspec.structs.replace(old, **changes)
        records[records.index(old)] = new
        return new

    def remove(self, old: Read) -> None:
        """The record was never there; the offsets of others stay."""
        self.records[(old.topic, old.partition)].remove(old)

    def cut(self, topic: Topic, partition: int, start: int) -> None:
        """Retention takes what lies before an offset."""
        place = (topic.name, partition)
        self.starts[place] = start
        self.records[place] = [read for read in self.records[place] if read.offset >= start]

    def compact(self, topic: Topic) -> None:
        """Keeps the last record of each key."""
        for place, records in self.records.items():
            if place[0] == topic.name:
                last = {read.key: read for read in records}
                self.records[place] = [read for read in records if last[read.key] is read]


class _Running:
    """One machine's process in the world; it recovers its table from the changelog."""

    def __init__(self, world: World, machine: Machine[Any]) -> None:
        self._world = world
        self._machine = machine
        self._partitions = range(machine.inbox.ring.partitions(local=True))
        self._table: dict[bytes, bytes] = {}
        self._shell: Shell[Any] = Shell(
            machine, self._table, self, self._fatal, local=True, elapsed_s=self._elapsed_s
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        changelog = f"milena-{self._machine.name}-state-changelog"
        for partition in self._partitions:
            for read in self._world.records[(changelog, partition)]:
                if read.value is None:
                    self._table.pop(read.key.encode(), None)
                else:
                    self._table[read.key.encode()] = read.value
        self._task = asyncio.create_task(self._shell.acknowledge_forever())
        await self._shell.recovered(self._partitions, TOPIC_ID)
        await self._shell.drain()

    async def stop(self) -> None:
        await self._shell.drain()
        await self._shell.forget_ended()
        await self._shell.drain()
        assert self._task is not None
        self._task.cancel()

    async def fold(self) -> bool:
        """Takes what is new; True where something was."""
        some = False
        for partition in self._partitions:
            place = (self._machine.inbox.name, partition)
            for read in self._world.records[place][:]:
                if read.offset < self._world.taken[place]:
                    continue
                some = True
                taken = Incoming(partition, read.offset, read.append_ms, read.key, read.value)
                await self._shell.take(taken, lambda: None)
                await self._shell.drain()
                self._world.taken[place] = read.offset + 1
        return some

    async def send(self, record: Outgoing) -> Awaitable[Sent]:
        assert record.topic in BY_NAME
        future: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()
        future.set_result(
            self._world.append(
                record.topic, record.partition, record.key, record.value, record.headers
            )
        )
        return future

    def committed(self, partition: int) -> int | None:
        return self._world.taken[(self._machine.inbox.name, partition)] or None

    async def rewind(self, partition: int) -> None:
        """Reading begins at the start again."""
        self._world.taken[(self._machine.inbox.name, partition)] = 0

    async def commit(self) -> None:
        """All taken is committed."""

    def _fatal(self, reason: str) -> None:
        raise AssertionError(reason)

    def _elapsed_s(self) -> float:
        return self._world.now_ms / 1_000


async def answered(*requests: str, user: str = "usr_1") -> World:
    """Each request admitted, granted, finished and closed, by one worker."""
    world = World()
    world.tell(WORKERS_INBOX, "w1", WorkersInbox(event_id="h1", body=heartbeat(1)))
    for request in requests:
        await ask(world, submit(request, request), user)
        await finish(world, request)
    return world


async def ask(world: World, body: Submit, user: str = "usr_1", event_id: str = "") -> None:
    event = AccountsInbox(event_id=event_id or f"s-{body.request_id}", body=body)
    world.tell(ACCOUNTS_INBOX, user, event)
    await world.run()


async def finish(world: World, request: str) -> None:
    for body in (claim(request), finished(request), closed(request)):
        name = f"{type(body).__name__}-{request}"
        world.tell(RUNS_INBOX, "run_1", RunsInbox(event_id=name, body=body))
        await world.run()
