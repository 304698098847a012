"""One inbox partition folded again, by the machine's own fold and the shell's rules. Pure.

Owns what the shell does around a fold and nothing more: unreadable records are put aside, a key's time
never falls, a state over its cap is refused, and new rules hold from their record on. Keeps one state
a key; never sends, never stores.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ops.log_scan import Read
from ops.verify.findings import Unjudged
from processors import places
from processors import stored as records
from processors.machine import STATE_BYTES_MAX, Event, Machine, Outputs, stamp
from processors.stored import OWN_PREFIX
from schemas.generated.types import Due, Upgraded
from topics import wire
from topics.errors import InvalidRecord, NotSupported
from topics.partition import partition_of

OWN_KEY: Final = OWN_PREFIX.decode()


class Kept(msgspec.Struct, frozen=True):
    """A key as the log has it so far."""

    offset: int
    """Of the last event folded."""
    now_ms: int
    state: Any


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the inbox and what it did. `dead` names why it was put aside, else empty."""

    read: Read
    event: Event | None = None
    before: Any = None
    after: Any = None
    outputs: Outputs = ()
    """Stamped."""
    rules: int = 0
    """The fold version that decided."""
    dead: str = ""

    @property
    def folded(self) -> bool:
        return self.event is not None and not self.dead


class Refold:
    """The keys of one partition. `rules` is the fold version in force at its first record."""

    def __init__(self, machine: Machine[Any], *, local: bool, rules: int) -> None:
        self._machine = machine
        self._local = local
        self._rules = rules
        self._partitions = machine.inbox.ring.partitions(local)
        self.keys: dict[str, Kept] = {}

    def adopt(self, key: str, kept: Kept) -> None:
        """Begins a key from a recorded state: the log before it is gone."""
        self.keys[key] = kept

    def take(self, read: Read) -> Step:
        """Folds one record; a partition's own must come in order.

        Raises:
            Unjudged: rules that this program does not know decide it.
        """
        try:
            envelope: Any = wire.decode(self._machine.envelope, read.value)
        except InvalidRecord as error:
            return Step(read=read, dead=error.reason)
        if read.key.startswith(OWN_KEY):
            return self._take_own(read, envelope.body)
        if not places.exist(envelope.body, self._local):
            return Step(read=read, dead="bad_partition")
        before = self.keys.get(read.key)
        if before is None and partition_of(read.key, self._partitions) != read.partition:
            return Step(read=read, dead="wrong_partition")
        event = Event(
            event_id=envelope.event_id,
            key=read.key,
            append_ms=max(read.append_ms, before.now_ms if before else 0),
            body=envelope.body,
        )
        return self._fold(read, event, before.state if before else None)

    def _take_own(self, read: Read, body: Any) -> Step:
        """What a shell writes for itself folds nothing; rules only ever go up."""
        if isinstance(body, Upgraded):
            self._rules = max(self._rules, body.rules)
        return Step(read=read, dead="" if isinstance(body, Due | Upgraded) else "reserved_key")

    def _fold(self, read: Read, event: Event, before: Any) -> Step:
        if not self._machine.knows(self._rules):
            raise Unjudged(
                f"{self._machine.name} decided by rules {self._rules}, which this program does not "
                "know: use the version that runs"
            )
        try:
            after, outputs = self._machine.by(self._rules)(before, event)
        except NotSupported:
            return Step(read=read, event=event, dead="not_supported")
        if len(records.encode_state(after)) > STATE_BYTES_MAX:
            outputs = self._machine.over_cap(event)
            if not outputs:
                return Step(read=read, event=event, dead="state_over_cap")
            after = before
        if after is None:
            self.keys.pop(read.key, None)
        else:
            self.keys[read.key] = Kept(read.offset, event.append_ms, after)
        return Step(
            read=read,
            event=event,
            before=before,
            after=after,
            outputs=stamp(outputs, event.event_id),
            rules=self._rules,
        )
