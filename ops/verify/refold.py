"""One inbox partition folded again, by what the shell itself decides with. Pure.

Owns the states of the keys and the rules in force, which go up with their record. Keeps one state a key;
never sends, never stores.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ops.log_scan import Read
from ops.verify.findings import Unjudged
from processors import decide
from processors.decide import OWN_KEY
from processors.machine import Event, Machine, Outputs, stamp
from schemas.generated.types import Due, Upgraded
from topics.errors import InvalidRecord


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
        self.keys: dict[str, Kept] = {}

    def adopt(self, key: str, kept: Kept) -> None:
        """Begins a key from a recorded state: the log before it is gone."""
        self.keys[key] = kept

    def take(self, read: Read) -> Step:
        """Folds one record; a partition's own must come in order.

        Raises:
            Unjudged: rules that this program does not know decide it.
        """
        before, event = self.keys.get(read.key), None
        try:
            envelope = decide.envelope_of(
                self._machine,
                read.key,
                read.partition,
                read.value,
                known=before is not None,
                local=self._local,
            )
            if read.key.startswith(OWN_KEY):
                return self._take_own(read, envelope.body)
            key_ms = before.now_ms if before else 0
            event = decide.event_of(envelope, read.key, read.append_ms, key_ms)
            return self._fold(read, event, before.state if before else None)
        except InvalidRecord as error:
            return Step(read=read, event=event, dead=error.reason)

    def _take_own(self, read: Read, body: Any) -> Step:
        """What a shell writes for itself folds nothing; rules only ever go up."""
        if isinstance(body, Upgraded):
            self._rules = max(self._rules, body.rules)
        elif not isinstance(body, Due):
            raise InvalidRecord("reserved_key")
        return Step(read=read)

    def _fold(self, read: Read, event: Event, before: Any) -> Step:
        if not self._machine.knows(self._rules):
            raise Unjudged(
                f"{self._machine.name} decided by rules {self._rules}, which this program does not "
                "know: use the version that runs"
            )
        after, outputs = decide.folded(self._machine, self._rules, before, event)
        decided = decide.capped(self._machine, before, event, after, outputs)
        if decided.state is None:
            self.keys.pop(read.key, None)
        else:
            self.keys[read.key] = Kept(read.offset, event.append_ms, decided.state)
        return Step(
            read=read,
            event=event,
            before=before,
            after=decided.state,
            outputs=stamp(decided.outputs, event.event_id),
            rules=self._rules,
        )
