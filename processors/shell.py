"""The one shell of all machines: fold → recorded answers → acknowledged sends → offset.

Owns the rules F3, F5, F6, F7 and F9 of the design. It folds in order and runs ahead of the broker; an
event is acknowledged only when its outputs and its state record are, in the order of arrival. Any failed
send ends the process: a fold has no repair for a lost record. It knows nothing of the domain and nothing
of Faust: the log comes in as `Log`, the table as `Table`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any, Final, Generic, Protocol

import msgspec

from processors import decide, marks, past, stored
from processors.dead_letters import DeadLetters
from processors.deadlines import Deadlines
from processors.decide import OWN_KEY
from processors.liveness import BEAT_S, Liveness
from processors.machine import Event, Machine, Output, State, kind, stamp
from processors.marks import Mark
from processors.metrics import MachineMetrics
from processors.outgoing import Outgoing, outgoing
from processors.recent import Recent
from processors.stored import OWN_PREFIX, PENDING_MAX, SEQ_HEADER, Stored, seq_at
from schemas.generated.types import Due, Upgraded
from topics.errors import InvalidRecord
from topics.ids import output_id
from topics.partition import partition_of
from topics.registry import CHANGELOGS
from topics.runtime.clock import BrokerClock

AHEAD_MAX: Final = 512
"""Events folded and not yet acknowledged; the stream waits beyond."""
DUES_A_ROUND_MAX: Final = 100
AHEAD_OF_CLOCK_MS_MAX: Final = 60_000
"""An append time further ahead of broker time comes from a wrong clock; a backlog lies behind it."""

Table = MutableMapping[bytes, bytes]
Fatal = Callable[[str], None]


class Sent(Protocol):
    """What the broker says of an appended record; the time is the append time in milliseconds."""

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int: ...


class Log(Protocol):
    """What the shell needs of the log. `send` returns once queued, with the future of its append."""

    async def send(self, record: Outgoing) -> Awaitable[Sent]: ...

    def committed(self, partition: int) -> int | None:
        """Next offset of the inbox partition that a restart would read; None where none was ever
        committed. Known for every owned partition before `recovered`."""

    async def commit(self) -> None:
        """Commits what is acknowledged, now."""

    async def rewind(self, partition: int) -> None:
        """Commits the start of the inbox partition, so that reading begins there. Before the first
        record of an assignment only."""


class Incoming(msgspec.Struct, frozen=True):
    """One record of the inbox as it came from the log."""

    partition: int
    offset: int
    append_ms: int
    key: str
    value: bytes | None


class _Queued(msgspec.Struct, frozen=True):
    """Sends to be awaited in turn, and what follows them."""

    sends: list[Awaitable[Sent]]
    acknowledge: Callable[[], None]
    sent_s: float
    inbox_partition: int | None = None
    """Where the send was one of ours into our own inbox: its acknowledgement shows that log alive."""


class Shell(Generic[State]):
    """Runs one machine over one table and one log. `fatal` must not return to normal work."""

    def __init__(
        self,
        machine: Machine[State],
        table: Table,
        log: Log,
        fatal: Fatal,
        *,
        local: bool,
        elapsed_s: Callable[[], float],
    ) -> None:
        self._machine = machine
        self._table = table
        self._log = log
        self._fatal = fatal
        self._local = local
        self._elapsed_s = elapsed_s
        self._partitions = machine.inbox.ring.partitions(local)
        self._changelog = CHANGELOGS[machine.name].name
        self._recent: Recent[State] = Recent()
        self._ahead: asyncio.Queue[_Queued] = asyncio.Queue(AHEAD_MAX)
        self._ended: deque[tuple[int, int, str]] = deque()
        self._marks: dict[int, Mark] = {}
        self._taken: dict[int, int] = {}
        self._liveness: dict[int, Liveness] = {}
        self._beaten_s = 0.0
        self._dead_letters = DeadLetters(machine.name, fatal)
        self.clock = BrokerClock()
        self.deadlines = Deadlines()
        self.metrics = MachineMetrics(machine.name)

    async def recovered(self, partitions: Collection[int], topic_id: str) -> None:
        """These partitions of the inbox are ours and the table holds all their keys: learn every
        deadline anew, and whether the past is the one we know. Before the first `take`.

        Raises:
            PastUnknown: the inbox was re-created, a changelog is gone, or a later version folded it.
            UnknownFormat: a record of another layout.
        """
        self._recent.clear()
        self._ended.clear()
        self.deadlines.clear()
        self._taken.clear()
        self._marks = {
            one: past.mark_of(
                self._machine,
                one,
                self._table.get(marks.key_of(one)),
                topic_id,
                self._log.committed(one),
            )
            for one in sorted(partitions)
        }
        self._liveness = {one: Liveness() for one in self._marks}
        for raw_key, raw in self._table.items():
            if raw_key.startswith(OWN_PREFIX):
                continue
            head, key = stored.head_of(raw), raw_key.decode()
            self.deadlines.set(key, head.deadline_ms)
            if head.ended:
                self._ended.append((partition_of(key, self._partitions), head.seq, key))
        for partition, mark in [*self._marks.items()]:
            if mark.rewind:
                await self._log.rewind(partition)
                mark = self._marks[partition] = marks.rewound(mark)
                await self._own(self._mark_record(partition, mark))
            elif marks.key_of(partition) not in self._table:
                await self._own(self._mark_record(partition, mark))
            if mark.rules < self._machine.rules:
                body = Upgraded(rules=self._machine.rules)
                await self._to_own_inbox(
                    partition, OWN_KEY, body, f"{topic_id}/{partition}/{body.rules}"
                )

    async def take(self, record: Incoming, acknowledge: Callable[[], None]) -> None:
        """Folds one record and queues its acknowledgement. Returns before the broker answers."""
        if record.partition not in self._marks:
            return  # it was given up meanwhile: unacknowledged, so its owner reads it
        now_s = self._elapsed_s()
        now_ms = self.clock.now_ms(now_s)
        if now_ms and record.append_ms > now_ms + AHEAD_OF_CLOCK_MS_MAX:
            self._fatal(f"append time {record.append_ms - now_ms} ms ahead of broker time")
            return
        sends = [await self._log.send(outgoing) for outgoing in await self._decide(record)]
        self._taken[record.partition] = record.offset
        await self._ahead.put(_Queued(sends, acknowledge, now_s))

    async def acknowledge_forever(self) -> None:
        """Acknowledges events in order as their sends are; ends the process on the first failure."""
        while True:
            queued = await self._ahead.get()
            try:
                reports = [await sent for sent in queued.sends]
            except Exception as error:  # noqa: BLE001 - whatever it was, the outcome is unknown
                self._fatal(f"a send was not acknowledged: {type(error).__name__}")
                return
            now_s = self._elapsed_s()
            for report in reports:
                self.clock.report(report.timestamp, now_s)
            if queued.inbox_partition in self._liveness:
                self._liveness[queued.inbox_partition].acknowledged(queued.sent_s, now_s)
            queued.acknowledge()
            self._ahead.task_done()

    async def append_dues(self, wall_ms: int) -> int:
        """Appends a `Due` for each passed deadline and returns how many.

        Broker time decides; before the first report the wall clock does, which is harmless since the
        fold judges by the append time. A machine that judges silence also sends a beat into each of
        its partitions, so that `live_s` is known when a deadline passes.
        """
        now_s = self._elapsed_s()
        if self._machine.judges_silence and now_s - self._beaten_s >= BEAT_S:
            self._beaten_s = now_s
            for partition in [*self._liveness]:
                await self._due(partition, OWN_KEY, 0, now_s)
        now_ms = self.clock.now_ms(now_s) or wall_ms
        passed = self.deadlines.passed(now_ms, DUES_A_ROUND_MAX)
        for key, deadline_ms in passed:
            await self._due(partition_of(key, self._partitions), key, deadline_ms, now_s)
        self.metrics.ahead.set(self._ahead.qsize())
        return len(passed)

    async def forget_ended(self) -> None:
        """Deletes the record of each key whose state ended, once no restart can meet its events."""
        for _ in range(len(self._ended)):
            partition, seq, key = self._ended.popleft()
            committed = self._committed_seq(partition)
            if committed is None or committed <= seq:
                self._ended.append((partition, seq, key))
                continue
            raw = self._table.get(key.encode())
            if raw and stored.seq_of(raw) == seq:
                self._recent.drop(key)
                self._table.pop(key.encode(), None)
                await self._own(self._tombstone(partition, key.encode(), seq))

    async def put_again(self, partition: int, strangers: Iterable[tuple[bytes, int]]) -> None:
        """Somebody else's changelog records stand behind ours: a zombie's, and compaction would keep
        them. Each (key, its seq) is answered with what we hold; one from behind our own place means
        that the zombie is us.
        """
        mark = self._marks[partition]
        for key, seq in strangers:
            raw = self._table.get(key)
            ours = stored.seq_of(raw) if raw else None
            newest = seq_at(mark.life, self._taken.get(partition, -1) + 1)
            if seq > (newest if ours is None else ours):
                self._fatal(f"a successor writes the changelog of partition {partition}")
                return
            if seq == ours:
                continue  # the same event folded by two: the same state
            self.metrics.put_again.inc()
            if raw:
                await self._own(Outgoing(self._changelog, partition, key, raw))
            else:
                await self._own(self._tombstone(partition, key, seq))

    async def drain(self) -> None:
        """Returns once every event taken so far is acknowledged."""
        await self._ahead.join()

    async def _own(self, record: Outgoing) -> None:
        sends = [await self._log.send(record)]
        await self._ahead.put(_Queued(sends, _nothing, self._elapsed_s()))

    async def _to_own_inbox(
        self, partition: int, key: str, body: Due | Upgraded, cause: str, live_s: int = 0
    ) -> None:
        name = f"{self._machine.name}/{cause}"
        value = self._machine.envelope(event_id=output_id(name, kind(body), live_s), body=body)
        output = Output(topic=self._machine.inbox, key=key, value=value, partition=partition)
        sends = [await self._log.send(outgoing(output, self._local))]
        await self._ahead.put(_Queued(sends, _nothing, self._elapsed_s(), partition))

    async def _due(self, partition: int, key: str, deadline_ms: int, now_s: float) -> None:
        live_s = self._liveness[partition].live_s(now_s) if partition in self._liveness else 0
        body = Due(deadline_at_ms=deadline_ms, live_s=live_s)
        await self._to_own_inbox(partition, key, body, f"{key}/{deadline_ms}", live_s)

    async def _decide(self, record: Incoming) -> list[Outgoing]:
        before = self._load(record.key)
        try:
            envelope = decide.envelope_of(
                self._machine,
                record.key,
                record.partition,
                record.value,
                known=before is not None,
                local=self._local,
            )
            if record.key.startswith(OWN_KEY):
                return self._take_own(record, envelope.body)
            seq = seq_at(self._marks[record.partition].life, record.offset)
            if before is not None and seq <= before.seq:
                self.metrics.repeats.inc()
                key = record.key.encode()
                again = Outgoing(self._changelog, record.partition, key, self._table[key])
                return [*stored.answered_at(before, seq), again]
            if before is not None and len(before.pending) >= PENDING_MAX:
                await self._make_room()
            key_ms = before.now_ms if before else 0
            event = decide.event_of(envelope, record.key, record.append_ms, key_ms)
            return self._fold(record, seq, event, before)
        except InvalidRecord as error:
            return [self._dead_letter(record, error.reason)]

    def _fold(
        self, record: Incoming, seq: int, event: Event, before: Stored[State] | None
    ) -> list[Outgoing]:
        rules = self._marks[record.partition].rules_at(record.offset)
        state = before.state if before else None
        with self.metrics.fold_seconds.time():
            after, outputs = decide.folded(self._machine, rules, state, event)
        decided = decide.capped(self._machine, state, event, after, outputs)
        self.metrics.events.labels(kind(event)).inc()
        out = tuple(
            outgoing(output, self._local) for output in stamp(decided.outputs, event.event_id)
        )
        committed = self._committed_seq(record.partition)
        kept = stored.prune(before.pending, committed) if before else ()
        held = Stored(seq, rules, event.append_ms, (*kept, (seq, out)), decided.state)
        return [*out, self._keep(record, held, decided.state_raw)]

    def _keep(self, record: Incoming, held: Stored[State], state_raw: bytes) -> Outgoing:
        """Puts the key's record everywhere it is looked for, and makes its changelog record."""
        state, key = held.state, record.key.encode()
        deadline_ms = None if state is None else self._machine.next_deadline(state)
        raw = stored.encode(held, state_raw, deadline_ms)
        self._table[key] = raw
        self._recent.put(record.key, held, len(raw))
        self.deadlines.set(record.key, deadline_ms)
        self.metrics.state_bytes.observe(len(raw))
        if state is None:
            self._ended.append((record.partition, held.seq, record.key))
        return Outgoing(self._changelog, record.partition, key, raw)

    def _take_own(self, record: Incoming, body: Any) -> list[Outgoing]:
        """A beat does nothing; new rules go into the partition's mark, once."""
        if isinstance(body, Due):
            return []
        if not isinstance(body, Upgraded):
            raise InvalidRecord("reserved_key")
        mark = self._marks[record.partition]
        if not self._machine.knows(body.rules):
            self._fatal(
                f"rules {body.rules} are in force, {self._machine.rules} are the last known"
            )
        elif body.rules > mark.rules:
            mark = marks.upgraded(mark, body.rules, record.offset)
            self._marks[record.partition] = mark
        return [self._mark_record(record.partition, mark)]

    def _mark_record(self, partition: int, mark: Mark) -> Outgoing:
        key, raw = marks.key_of(partition), marks.encode(mark)
        self._table[key] = raw
        return Outgoing(self._changelog, partition, key, raw)

    def _tombstone(self, partition: int, key: bytes, seq: int) -> Outgoing:
        headers = ((SEQ_HEADER, str(seq).encode()),)
        return Outgoing(self._changelog, partition, key, None, headers)

    def _committed_seq(self, partition: int) -> int | None:
        committed, mark = self._log.committed(partition), self._marks.get(partition)
        return None if committed is None or mark is None else seq_at(mark.life, committed)

    def _load(self, key: str) -> Stored[State] | None:
        found = self._recent.get(key)
        if found is None and (raw := self._table.get(key.encode())):
            found = stored.decode(raw, self._machine.state)
            self._recent.put(key, found, len(raw))
        return found

    async def _make_room(self) -> None:
        """A key's recorded answers reached their bound: commit, so that older ones may go."""
        await self.drain()
        await self._log.commit()
        self.metrics.forced_commits.inc()

    def _dead_letter(self, record: Incoming, reason: str) -> Outgoing:
        self.metrics.dead_letters.labels(reason).inc()
        return self._dead_letters.letter(
            record.partition, record.offset, record.key.encode(), record.value, reason
        )


def _nothing() -> None:
    """Acknowledges no event."""
