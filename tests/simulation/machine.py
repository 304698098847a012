"""One process of a machine: the real shell and the real fold, over the log in memory.

Owns what `processors.app` and `processors.__main__` own of a real one: membership, recovery, the order
of starting, the tasks beside the fold, the end of the process. Decides nothing that they do not.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, Final

import msgspec

from processors import stored
from processors.machine import Machine
from processors.outgoing import Outgoing
from processors.places import changelog_partition
from processors.shell import Incoming, Shell
from processors.transport.fence import Fence
from processors.transport.offsets import Offsets, Recreated
from processors.transport.rebuild import Rebuild
from processors.transport.strangers import Cut, Span, Strangers
from processors.transport.tenure import Gate
from processors.transport.watchdog import STANDSTILL_S_MAX, Standing, Watchdog
from tests.simulation.broker import Broker, Draft, Failed, Place, Rec
from tests.simulation.clients import Member, Producer, once
from tests.simulation.groups import SESSION_S, Group, Joined
from tests.simulation.loop import Exited, Process
from tests.simulation.trace import Trace
from topics.errors import PastUnknown
from topics.registry import CHANGELOGS

TICK_S: Final = 0.2
COMMIT_S: Final = 1.0
WATCH_S: Final = 3.0
FETCHED_MAX: Final = 24
SETTLE_S_MAX: Final = 20.0
EXPECTED: Final = (Failed, PastUnknown, Recreated, Cut)
"""What may end a machine; any other error is a fault of the code."""


class Report(msgspec.Struct, frozen=True):
    """What the producer says of an appended record."""

    partition: int
    offset: int
    timestamp: int


class Tenure:
    """One assignment of partitions to this process, until the next."""

    def __init__(self, places: tuple[Place, ...], number: int) -> None:
        self.places = places
        self.partitions = [partition for _, partition in places]
        self.number = number
        self.over = False


class SimulatedLog:
    """The shell's `Log`."""

    def __init__(self, host: "Host") -> None:
        self._host = host

    async def send(self, record: Outgoing) -> Awaitable[Report]:
        host = self._host
        host.may_send()
        place = (record.topic, record.partition)
        ours = record.topic == host.changelog
        if ours:
            host.strangers.sent(record.partition)
        sent = host.producer.send(place, Draft(record.key, record.value, record.headers))
        reported: asyncio.Future[Report] = asyncio.get_running_loop().create_future()

        def report(future: "asyncio.Future[Rec]") -> None:
            error = future.exception()
            if error is not None:
                reported.set_exception(error)
                return
            rec = future.result()
            if ours:
                host.strangers.reported(record.partition, rec.offset)
            reported.set_result(Report(record.partition, rec.offset, rec.append_ms))

        sent.add_done_callback(report)
        return reported

    def committed(self, partition: int) -> int | None:
        return self._host.offsets.committed_at((self._host.inbox, partition))

    async def commit(self) -> None:
        self._host.trace.mark("forced commit")
        await self._host.commit()

    async def rewind(self, partition: int) -> None:
        await self._host.rewind(partition)


class Host:
    """One life of one instance."""

    def __init__(
        self,
        broker: Broker,
        trace: Trace,
        group: Group,
        machine: Machine[Any],
        process: Process,
        instance: str,
        life: int,
        owners: dict[int, str],
    ) -> None:
        self._broker = broker
        self._loop = broker.loop
        self.trace = trace
        self._group = group
        self._name = instance
        self._owners = owners
        self._machine = machine
        self._process = process
        self.inbox = machine.inbox.name
        self.changelog = CHANGELOGS[machine.name].name
        self.table: dict[bytes, bytes] = {}
        self.offsets = Offsets()
        self.strangers = Strangers()
        self._fence = Fence(SESSION_S)
        self._watchdog = Watchdog()
        self.producer = Producer(broker, self.may_send)
        self.tenure: Tenure | None = None
        self.folding = False
        self._gate = Gate()
        self._recovering: asyncio.Task[None] | None = None
        self._generation = -1
        self._whole: set[int] = set()
        """Partitions whose keys the table holds."""
        self._fetched: asyncio.Queue[tuple[Tenure, Rec | None, Place, int]] = asyncio.Queue()
        self._member = Member(broker, group, instance, life, self._joined, self._left, self._lost)
        self._member.heard = self._fence.beat
        self.shell: Shell[Any] = Shell(
            machine,
            self.table,
            SimulatedLog(self),
            self.fatal,
            local=True,
            elapsed_s=self._loop.time,
        )

    async def main(self) -> None:
        """Serves until the process is ended."""
        self._member.start()
        for work in (
            self.shell.acknowledge_forever(),
            self._fold_forever(),
            self._keep_time(),
            self._commit_forever(),
            self._watch(),
        ):
            self._loop.create_task(self._guarded(work))

    @property
    def serves(self) -> bool:
        """True while it lives and folds what it was assigned."""
        tenure = self.tenure
        return self._process.alive and self.folding and tenure is not None and not tenure.over

    @property
    def partitions(self) -> list[int]:
        return self.tenure.partitions if self.tenure is not None else []

    def caught_up(self, before_ms: int) -> bool:
        """Everything appended to its partitions before that time is folded and committed."""
        return all(
            self._last(place, before_ms) < (self.offsets.committed_at(place) or 0)
            for place in (self.tenure.places if self.tenure is not None else ())
        )

    def _last(self, place: Place, before_ms: int) -> int:
        for rec in reversed(self._broker.parts[place].records):
            if rec is not None and rec.append_ms < before_ms:
                return rec.offset
        return -1

    def fatal(self, reason: str) -> None:
        """Ends the process as `os._exit` does."""
        self.trace.say(self._process.name, f"dies: {reason}")
        if reason.startswith("a send was not"):
            self.trace.mark("died of a failed send")
        self._loop.kill(self._process)
        raise Exited(reason)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - the outermost loop of a process
            if not self._process.alive:
                return
            if not isinstance(error, EXPECTED):
                self._loop.fail(error)
            self.trace.mark(f"died of {type(error).__name__}")
            self.fatal(f"{type(error).__name__}: {error}")

    def may_send(self) -> bool:
        if not self._fence.holds(self._loop.time()):
            self.trace.mark("self-fence")
            self.fatal("fence: the group was silent for too long")
        return True

    # --- membership

    def _joined(self, joined: Joined, sent_s: float) -> None:
        self._fence.assigned(sent_s)
        number = self.offsets.assigned(set(joined.places))
        self.tenure = Tenure(joined.places, number)
        work = self._guarded(self._recover(self.tenure, joined.generation))
        self._recovering = self._loop.create_task(work)

    async def _left(self) -> None:
        """Finishes what was taken before another may have the partitions."""
        try:
            async with asyncio.timeout(SETTLE_S_MAX):
                await self._gate.close()
                await self.shell.drain()
                await self.commit()
        except TimeoutError:
            self.trace.mark("gave up before a rebalance")
            self.fatal("what was taken was not acknowledged in time")
        if self._recovering is not None:
            self._recovering.cancel()
        self.folding = False
        self.offsets.revoked()
        self._fence.revoked()
        if self.tenure is not None:
            self.tenure.over = True

    def _lost(self) -> None:
        self.trace.mark("fenced by a successor")
        self._fence.lost()
        self.fatal("the group does not know this member any more")

    async def _recover(self, tenure: Tenure, generation: int) -> None:
        """What an assignment must know before its first fold, in the order of the real recovery."""
        if generation not in (self._generation, self._generation + 1):
            self._whole.clear()
        self._generation = generation
        late = await self._fill(set(tenure.partitions))
        found = await once(lambda reply: self._group.fetch_committed(tenure.places, reply))
        for place in tenure.places:
            self.offsets.committed(place, found.get(place))
        await self.shell.recovered(tenure.partitions, self._broker.ids[self.inbox])
        for partition, keys in late.items():
            await self.shell.put_again(partition, keys)
        told = f"folds {tenure.partitions}, {len(self.table)} keys"
        self.trace.say(self._process.name, told)
        for partition in tenure.partitions:
            if self._owners.get(partition, self._name) != self._name:
                self.trace.mark("takeover")
            self._owners[partition] = self._name
        self.folding = True
        self._gate.open()
        for place in tenure.places:
            self._read_on(tenure, place, self.offsets.committed_at(place) or 0)

    async def _fill(self, partitions: set[int]) -> dict[int, list[tuple[bytes, int]]]:
        late: dict[int, list[tuple[bytes, int]]] = {}
        self._whole &= partitions
        self.strangers.keep(set(self._whole))
        count = self._machine.inbox.ring.partitions(local=True)
        for key in [k for k in self.table if changelog_partition(k, count) not in self._whole]:
            del self.table[key]
        places = [(self.changelog, one) for one in sorted(partitions - self._whole)]
        if self._whole:
            self.trace.mark("kept its state over a rebalance")
        ends = await once(lambda reply: self._broker.end_offsets(places, reply))
        for place in places:
            rebuild, at = Rebuild(), 0
            while at < ends[place]:
                recs, at = await once(
                    lambda reply, p=place, o=at: self._broker.fetch(p, o, ends[p] - o, reply)  # type: ignore[misc]
                )
                for rec in recs:
                    rebuild.put(rec.key, rec.value, seq_of(rec))
            found, late[place[1]] = rebuild.table(), rebuild.late()
            self.table.update(found)
            self.strangers.begin(place[1], ends[place])
            self._whole.add(place[1])
            if found:
                self.trace.mark("recovered state")
        return late

    def _read_on(self, tenure: Tenure, place: Place, offset: int) -> None:
        def reply(result: tuple[list[Rec], int]) -> None:
            recs, upto = result
            for rec in recs:
                self._fetched.put_nowait((tenure, rec, place, upto))
            self._fetched.put_nowait((tenure, None, place, upto))

        if not tenure.over:
            self._broker.fetch(place, offset, FETCHED_MAX, reply)

    async def _fold_forever(self) -> None:
        while True:
            tenure, rec, place, upto = await self._fetched.get()
            if tenure.over:
                continue
            if rec is None:
                self._read_on(tenure, place, upto)
                continue
            if not self.offsets.taken(place, rec.offset, tenure.number):
                continue
            acknowledge = partial(self.offsets.acknowledged, place, rec.offset, tenure.number)
            incoming = Incoming(
                place[1], rec.offset, rec.append_ms, rec.key.decode("utf-8", "replace"), rec.value
            )
            async with self._gate:
                await self.shell.take(incoming, acknowledge)

    async def _keep_time(self) -> None:
        while True:
            if self._fence.broken(self._loop.time()):
                self.may_send()
            async with self._gate:
                await self.shell.append_dues(self._broker.now_ms())
                await self.shell.forget_ended()
            await asyncio.sleep(TICK_S)

    async def _commit_forever(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            await self.commit()

    async def commit(self) -> None:
        """Commits what is acknowledged and was not committed yet."""
        number, wanted = self.offsets.assignment, self.offsets.to_commit()
        if not wanted:
            return
        await self.producer.flush()
        if number != self.offsets.assignment:
            return
        good = await once(lambda reply: self._member.commit(wanted, reply))
        if good and number == self.offsets.assignment:
            for place, offset in wanted.items():
                self.offsets.committed(place, offset)

    async def rewind(self, partition: int) -> None:
        """The group's offset of this partition is its start again."""
        place = (self.inbox, partition)
        await once(lambda reply: self._member.commit({place: 0}, reply))
        self.offsets.committed(place, None)

    async def _watch(self) -> None:
        """Others' records in our changelog, and a machine that stands still."""
        while True:
            await asyncio.sleep(WATCH_S)
            tenure = self.tenure
            if tenure is None or tenure.over or not self.folding:
                continue
            quiet = self.strangers.quiet()
            places = [(self.changelog, partition) for partition in quiet]
            ends = await once(lambda reply, p=places: self._broker.end_offsets(p, reply))  # type: ignore[misc]
            for (_, partition), end in ends.items():
                self.strangers.ended(partition, end, quiet[partition])
            for span in self.strangers.found():
                await self._answer(tenure, span)
            self._look_for_standstill(tenure)

    def _look_for_standstill(self, tenure: Tenure) -> None:
        standings = {
            place[1]: Standing(
                self.offsets.committed_at(place) or 0,
                self._last(place, self._broker.now_ms())
                + 1
                - (self.offsets.committed_at(place) or 0),
            )
            for place in tenure.places
        }
        if self._watchdog.look(self._loop.time(), standings) > STANDSTILL_S_MAX:
            self.trace.mark("watchdog")
            self.fatal("watchdog: the committed offset stands still")

    async def _answer(self, tenure: Tenure, span: Span) -> None:
        place, at = (self.changelog, span.partition), span.start
        found: list[tuple[bytes, int]] = []
        while at < span.end:
            recs, at = await once(
                lambda reply, o=at: self._broker.fetch(place, o, span.end - o, reply)  # type: ignore[misc]
            )
            found += [(rec.key, seq_of(rec) or 0) for rec in recs]
        if found and not tenure.over and self.folding:
            self.trace.mark("stranger in the changelog")
            await self.shell.put_again(span.partition, found)


def seq_of(rec: Rec) -> int | None:
    """A changelog record's seq; None for one that tells none."""
    if rec.value is not None:
        return stored.seq_of(rec.value)
    return next((int(raw) for name, raw in rec.headers if name == stored.SEQ_HEADER), None)
