"""The one shell of all machines: fold → recorded answers → acknowledged sends → offset.

Owns the rules F3, F5, F6 and F7 of the design. It folds in order and runs ahead of the broker; an event
is acknowledged only when its outputs and its state record are, in the order of arrival. Any failed send
ends the process: a fold has no repair for a lost record. It knows nothing of the domain and nothing of
Faust: the log comes in as `Log`, the table as `Table`.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Generic, Protocol

import msgspec
import structlog

from processors import places
from processors import stored as records
from processors.deadlines import Deadlines
from processors.machine import STATE_BYTES_MAX, Event, Machine, Output, Outputs, State, kind, stamp
from processors.metrics import MachineMetrics
from processors.outgoing import Outgoing, outgoing
from processors.stored import PENDING_MAX, Stored
from schemas.generated.types import Due
from topics import wire
from topics.errors import InvalidRecord, NotSupported
from topics.ids import output_id
from topics.partition import partition_of
from topics.registry import CHANGELOGS, DEAD_LETTERS
from topics.runtime.clock import BrokerClock

AHEAD_MAX: Final = 512
"""Events folded and not yet acknowledged; the stream waits beyond."""
DEAD_LETTERS_MAX: Final = 1_000
"""Beyond this the fault is ours, not the data's: the process ends."""
CACHE_KEYS_MAX: Final = 50_000
DUES_A_ROUND_MAX: Final = 100

Table = MutableMapping[bytes, bytes]
Fatal = Callable[[str], None]
_log = structlog.get_logger()


class Sent(Protocol):
    """What the broker says of an appended record."""

    timestamp: int


class Log(Protocol):
    """What the shell needs of the log. `send` returns once queued, with the future of its append."""

    async def send(self, record: Outgoing) -> Awaitable[Sent]: ...

    def committed(self, partition: int) -> int | None:
        """Next offset of the inbox partition that a restart would read, where known."""

    async def commit(self) -> None:
        """Commits what is acknowledged, now."""


class Incoming(msgspec.Struct, frozen=True):
    """One record of the inbox as it came from the log."""

    partition: int
    offset: int
    append_ms: int
    key: str
    value: bytes | None


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
        self._changelog = CHANGELOGS[machine.name].name
        self._cache: dict[str, Stored[State]] = {}
        self._ahead: asyncio.Queue[tuple[list[Awaitable[Sent]], Callable[[], None]]]
        self._ahead = asyncio.Queue(AHEAD_MAX)
        self._ended: deque[tuple[int, int, str]] = deque()
        self._dead_letters = 0
        self._live_since_s: float | None = None
        self.clock = BrokerClock()
        self.deadlines = Deadlines()
        self.metrics = MachineMetrics(machine.name)

    def recovered(self) -> None:
        """The table was filled anew: forget what was cached and learn every key's deadline."""
        self._cache.clear()
        self._ended.clear()
        self.deadlines.clear()
        partitions = self._machine.inbox.ring.partitions(self._local)
        for raw_key, raw in self._table.items():
            if not raw:
                continue
            key, held = raw_key.decode(), records.decode(raw, self._machine.state)
            self._note_deadline(key, held.state)
            if held.state is None:
                self._ended.append((partition_of(key, partitions), held.offset, key))

    async def take(self, record: Incoming, acknowledge: Callable[[], None]) -> None:
        """Folds one record and queues its acknowledgement. Returns before the broker answers."""
        sends = [await self._log.send(outgoing) for outgoing in await self._decide(record)]
        await self._ahead.put((sends, acknowledge))

    async def acknowledge_forever(self) -> None:
        """Acknowledges events in order as their sends are; ends the process on the first failure."""
        while True:
            sends, acknowledge = await self._ahead.get()
            try:
                reports = [await sent for sent in sends]
            except Exception as error:  # noqa: BLE001 - whatever it was, the outcome is unknown
                self._fatal(f"a send was not acknowledged: {type(error).__name__}")
                return
            now_s = self._elapsed_s()
            if reports and self._live_since_s is None:
                self._live_since_s = now_s
            for report in reports:
                self.clock.report(report.timestamp, now_s)
            acknowledge()
            self._ahead.task_done()

    async def append_dues(self, wall_ms: int) -> int:
        """Appends a `Due` for each passed deadline and returns how many.

        Broker time decides; before the first report the wall clock does, which is harmless since the
        fold judges by the append time.
        """
        now_s = self._elapsed_s()
        now_ms = self.clock.now_ms(now_s) or wall_ms
        live_s = 0 if self._live_since_s is None else int(now_s - self._live_since_s)
        passed = self.deadlines.passed(now_ms, DUES_A_ROUND_MAX)
        for key, deadline_ms in passed:
            value = self._machine.envelope(
                event_id=output_id(f"{self._machine.name}/{key}/{deadline_ms}", "Due", live_s),
                body=Due(deadline_at_ms=deadline_ms, live_s=live_s),
            )
            due = Output(topic=self._machine.inbox, key=key, value=value)
            await self._own(outgoing(due, self._local))
        return len(passed)

    async def forget_ended(self) -> None:
        """Deletes the record of each key whose state ended, once no restart can meet its events."""
        for _ in range(len(self._ended)):
            partition, offset, key = self._ended.popleft()
            committed = self._log.committed(partition)
            if committed is None or committed <= offset:
                self._ended.append((partition, offset, key))
                continue
            held = self._load(key)
            if held is not None and held.offset == offset:
                self._cache.pop(key, None)
                self._table.pop(key.encode(), None)
                await self._own(Outgoing(self._changelog, partition, key.encode(), None))

    async def drain(self) -> None:
        """Returns once every event taken so far is acknowledged."""
        await self._ahead.join()

    async def _own(self, record: Outgoing) -> None:
        await self._ahead.put(([await self._log.send(record)], _nothing))

    async def _decide(self, record: Incoming) -> list[Outgoing]:
        try:
            envelope: Any = wire.decode(self._machine.envelope, record.value)
        except InvalidRecord as error:
            return [self._dead_letter(record, error.reason)]
        if not places.exist(envelope.body, self._local):
            return [self._dead_letter(record, "bad_partition")]
        before = self._load(record.key)
        if before is not None and record.offset <= before.offset:
            self.metrics.repeats.inc()
            again = self._state_record(record, before, records.encode_state(before.state))
            return [*records.answered_at(before, record.offset), again]
        if before is not None and len(before.pending) >= PENDING_MAX:
            await self._make_room()
        event = Event(
            event_id=envelope.event_id,
            key=record.key,
            append_ms=max(record.append_ms, before.now_ms if before else 0),
            body=envelope.body,
        )
        return self._fold(record, event, before)

    def _fold(self, record: Incoming, event: Event, before: Stored[State] | None) -> list[Outgoing]:
        with self.metrics.fold_seconds.time():
            try:
                state, outputs = self._machine.fold(before.state if before else None, event)
            except NotSupported:
                return [self._dead_letter(record, "not_supported")]
        raw = records.encode_state(state)
        if len(raw) > STATE_BYTES_MAX:
            outputs = self._machine.over_cap(event)
            if not outputs:
                return [self._dead_letter(record, "state_over_cap")]
            # A refusal changes nothing but what was answered.
            state = before.state if before else None
            raw = records.encode_state(state)
        self.metrics.events.labels(kind(event)).inc()
        return self._record(record, event, before, state, raw, outputs)

    def _record(
        self,
        record: Incoming,
        event: Event,
        before: Stored[State] | None,
        state: State | None,
        state_raw: bytes,
        outputs: Outputs,
    ) -> list[Outgoing]:
        out = tuple(outgoing(output, self._local) for output in stamp(outputs, event.event_id))
        kept = (
            records.prune(before.pending, self._log.committed(record.partition)) if before else ()
        )
        after = Stored(
            record.offset,
            before.seq + 1 if before else 1,
            event.append_ms,
            (*kept, (record.offset, out)),
            state,
        )
        self._keep(record.key, after)
        if state is None:
            self._ended.append((record.partition, record.offset, record.key))
        return [*out, self._state_record(record, after, state_raw)]

    def _state_record(self, record: Incoming, after: Stored[State], state_raw: bytes) -> Outgoing:
        """Puts the state into the table and makes its changelog record, also for a repeat (F3)."""
        raw = records.encode(after, state_raw)
        self.metrics.state_bytes.observe(len(raw))
        self._table[record.key.encode()] = raw
        return Outgoing(self._changelog, record.partition, record.key.encode(), raw)

    def _load(self, key: str) -> Stored[State] | None:
        found = self._cache.get(key)
        if found is None and (raw := self._table.get(key.encode())):
            found = records.decode(raw, self._machine.state)
        return found

    def _keep(self, key: str, after: Stored[State]) -> None:
        if len(self._cache) >= CACHE_KEYS_MAX:
            self._cache.clear()
        self._cache[key] = after
        self._note_deadline(key, after.state)

    def _note_deadline(self, key: str, state: State | None) -> None:
        self.deadlines.set(key, None if state is None else self._machine.next_deadline(state))

    async def _make_room(self) -> None:
        """A key's recorded answers reached their bound: commit, so that older ones may go."""
        await self.drain()
        await self._log.commit()
        self.metrics.forced_commits.inc()

    def _dead_letter(self, record: Incoming, reason: str) -> Outgoing:
        self._dead_letters += 1
        self.metrics.dead_letters.labels(reason).inc()
        _log.warning("dead letter", reason=reason, partition=record.partition, offset=record.offset)
        if self._dead_letters > DEAD_LETTERS_MAX:
            self._fatal("too many dead letters")
        source = self._machine.inbox.name
        headers = (
            ("milena-dlq-reason", reason.encode()),
            ("milena-dlq-topic", source.encode()),
            ("milena-dlq-partition", str(record.partition).encode()),
            ("milena-dlq-offset", str(record.offset).encode()),
        )
        return Outgoing(
            DEAD_LETTERS[self._machine.name].name,
            record.partition,
            record.key.encode(),
            record.value,
            headers,
        )


def _nothing() -> None:
    """The shell's own sends acknowledge no event."""
