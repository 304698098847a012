"""What every machine must have told and must hold: the pure fold over its inbox, from offset 0.

Owns the comparison of the real machines with `fold(log)`: each record that a machine appends must be one
that the fold tells, each state record the fold's state at its offset, and in the end nothing may be
missing. The laws that the folds themselves must obey are in `laws.py`, called with every step.
"""

from collections.abc import Callable
from typing import Any, Final

from processors import places, stored
from processors.decide import OWN_KEY
from processors.machine import STATE_BYTES_MAX, Event, Machine, Output, stamp
from processors.outgoing import outgoing
from processors.stored import OWN_PREFIX
from processors.transport.rebuild import Rebuild
from schemas.generated.types import Upgraded
from tests.simulation.broker import Broker, Place, Rec
from tests.simulation.machine import seq_of
from tests.simulation.trace import Trace
from topics import wire
from topics.errors import InvalidRecord, NotSupported
from topics.partition import partition_of
from topics.registry import CHANGELOGS, DEAD_LETTERS

Step = Callable[[str, Event, Any, Any, tuple[Output, ...]], None]
"""Machine name, event, state before and after, what is told."""
Told = tuple[str, int, bytes, bytes | None]


_OFFSET: Final = (1 << stored.LIFE_BITS) - 1


class Broken(AssertionError):
    """An invariant does not hold."""


class Oracle:
    """The reference of one machine."""

    def __init__(self, machine: Machine[Any], broker: Broker, trace: Trace, stepped: Step) -> None:
        self._machine = machine
        self._broker = broker
        self._trace = trace
        self._stepped = stepped
        self._inbox = machine.inbox.name
        self._partitions = machine.inbox.ring.partitions(local=True)
        self._rules: dict[int, int] = {}
        self._changelog = CHANGELOGS[machine.name].name
        self._letters = DEAD_LETTERS[machine.name].name
        self._now_ms: dict[str, int] = {}
        self._told: dict[Told, int | None] = {}
        """What must be told -> when it became so; None once it was."""
        self._dead: dict[Told, int | None] = {}
        self._newest: dict[bytes, int] = {}
        self._at: dict[tuple[str, int], bytes] = {}
        """(key, offset) -> encoded state after it."""
        self.states: dict[str, Any] = {}
        self.last: dict[str, int] = {}

    # --- the reference

    def fold(self, partition: int, rec: Rec) -> None:
        """One record of the inbox, in its place."""
        try:
            envelope: Any = wire.decode(self._machine.envelope, rec.value)
        except InvalidRecord:
            return self._refuse(partition, rec)
        key = rec.key.decode("utf-8", "replace")
        if key.startswith(OWN_KEY):
            if isinstance(envelope.body, Upgraded):
                self._rules[partition] = max(self._rules.get(partition, 1), envelope.body.rules)
            return None
        wrong = key not in self.states and partition_of(key, self._partitions) != partition
        if wrong or not places.exist(envelope.body, local=True):
            return self._refuse(partition, rec)
        now_ms = max(rec.append_ms, self._now_ms.get(key, 0))
        event = Event(event_id=envelope.event_id, key=key, append_ms=now_ms, body=envelope.body)
        before = self.states.get(key)
        try:
            after, outputs = self._machine.by(self._rules.get(partition, self._machine.rules))(
                before, event
            )
        except NotSupported:
            return self._refuse(partition, rec)
        raw = stored.encode_state(after)
        if len(raw) > STATE_BYTES_MAX:
            outputs = self._machine.over_cap(event)
            if not outputs:
                return self._refuse(partition, rec)
            after, raw = before, stored.encode_state(before)
        self.states[key], self._now_ms[key] = after, now_ms
        self.last[key] = rec.offset
        self._at[(key, rec.offset)] = raw
        for output in stamp(outputs, event.event_id):
            out = outgoing(output, local=True)
            self._told.setdefault((out.topic, out.partition, out.key, out.value), rec.append_ms)
        self._stepped(self._machine.name, event, before, after, outputs)
        return None

    def _refuse(self, partition: int, rec: Rec) -> None:
        self._dead[(self._letters, partition, rec.key, rec.value)] = rec.append_ms

    # --- the machine's word against it

    def check(self, place: Place, rec: Rec) -> None:
        """One record that a process of this machine appended."""
        topic, partition = place
        told: Told = (topic, partition, rec.key, rec.value)
        if topic == self._changelog:
            self._check_state(rec)
        elif topic == self._letters:
            if told not in self._dead:
                raise Broken(f"I1: {self._machine.name} dead-lettered a good record")
            self._dead[told] = None
            self._trace.mark("dead letter")
        elif topic != self._inbox:
            if told not in self._told:
                value = rec.value[:64] if rec.value else None
                raise Broken(
                    f"I6: {self._machine.name} told what no fold tells: {told[:3]} {value!r}"
                )
            if self._told[told] is None:
                self._trace.mark("answers said again")
            self._told[told] = None

    def _check_state(self, rec: Rec) -> None:
        if rec.value is None:
            self._trace.mark("state forgotten")
        if rec.value is None or rec.key.startswith(OWN_PREFIX):
            return
        key, seq = rec.key.decode(), stored.seq_of(rec.value)
        newest = self._newest.get(rec.key, -1)
        if seq < newest:
            self._trace.mark("zombie wrote")
        elif seq == newest:
            self._trace.mark("event met again")
        self._newest[rec.key] = max(newest, seq)
        offset = seq & _OFFSET
        held = stored.decode(rec.value, self._machine.state)
        if stored.encode_state(held.state) != self._at.get((key, offset)):
            raise Broken(f"I6: {self._machine.name} holds another state of {key} at {offset}")
        if len(held.pending) > stored.PENDING_MAX + 1:
            raise Broken(f"I9: {len(held.pending)} answers kept of {key}")

    def missing(self, before_ms: int) -> Told | None:
        """Something that follows from a record older than that, and that nobody appended."""
        for wanted in (self._told, self._dead):
            for told, since_ms in wanted.items():
                if since_ms is not None and since_ms < before_ms:
                    return told
        return None

    def whole(self, tables: dict[int, dict[bytes, bytes]], before_ms: int) -> None:
        """The owners' tables, and what a recovery would read, hold the fold's states, at least up to
        every record older than that.

        Raises:
            Broken: they do not.
        """
        for partition in range(self._partitions):
            rebuild = Rebuild()
            for rec in self._broker.parts[(self._changelog, partition)].records:
                if rec is not None:
                    rebuild.put(rec.key, rec.value, seq_of(rec))
            rebuilt = rebuild.table()
            for key, offset in self.last.items():
                if partition_of(key, self._partitions) == partition:
                    place = partition, key, offset
                    self._compare("owner's table", place, tables[partition], before_ms)
                    self._compare("changelog", place, rebuilt, before_ms)

    def _compare(
        self, where: str, place: tuple[int, str, int], table: dict[bytes, bytes], before_ms: int
    ) -> None:
        partition, key, offset = place
        raw = table.get(key.encode())
        state, at = None, offset
        if raw is not None:
            state = stored.decode(raw, self._machine.state).state
            at = stored.seq_of(raw) & _OFFSET
        newest = self._broker.parts[(self._inbox, partition)].records[offset]
        late = at != offset and (newest is None or newest.append_ms < before_ms)
        if late or stored.encode_state(state) != self._at.get((key, at)):
            raise Broken(f"I6: {self._machine.name}'s {where} is not fold(log) at {key}, {offset}")
