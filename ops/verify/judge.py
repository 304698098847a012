"""One inbox partition held up to its table: the folded state of every key is the recorded one. Pure.

Owns what is compared and what can be said where the log no longer reaches back. Takes the records in
order and tells each step on; reads nothing itself.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ops.log_scan import Read
from ops.verify.findings import ABSENT, Check, Difference, first_unequal, shown
from ops.verify.laws import LAWS
from ops.verify.refold import Kept, Refold, Step
from ops.verify.table import Row, Table, offset_of
from processors import stored as records
from processors.machine import Machine
from processors.stored import Stored, seq_at

KEPT_MAX: Final = 20
"""Differences shown; all are counted."""


class Found:
    """Differences in the order they were met; the first ones kept, all counted."""

    def __init__(self) -> None:
        self.first: list[Difference] = []
        self.count = 0

    def add(self, difference: Difference) -> None:
        self.count += 1
        if len(self.first) < KEPT_MAX:
            self.first.append(difference)


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """Offsets of one inbox partition, and the times of the span, epoch milliseconds."""

    start: int
    """The first one the log still has."""
    settled: int
    """The machine committed all before it."""
    end: int
    from_ms: int = 0
    to_ms: int = 1 << 62

    def judged(self, read: Read) -> bool:
        """Whether what this record did must be in the topics."""
        return read.offset < self.settled and self.from_ms <= read.append_ms < self.to_ms


class Tally(msgspec.Struct):
    """What one partition's judgement rests on."""

    events: int = 0
    keys: int = 0
    equal: int = 0
    """Keys whose recorded state is the folded one."""
    dead_letters: int = 0
    adopted: int = 0
    """Keys folded from a recorded state, since their first events are gone from the log."""
    unproven: int = 0
    """Keys with events in the span that no recorded state lets us fold."""


class PartitionJudge:
    """Call `take` for each record of the partition, then `finish`."""

    def __init__(
        self,
        machine: Machine[Any],
        partition: int,
        table: Table,
        bounds: Bounds,
        found: Found,
        *,
        local: bool,
        whole: bool,
    ) -> None:
        """`whole`: every key's first event is in the log, or its absence from the table proves that
        it had none."""
        self._machine = machine
        self._partition = partition
        self._table = table
        self._bounds = bounds
        self._found = found
        self._whole = whole
        self._law = LAWS[machine.name]
        self._life = table.life
        marks = [mark for mark in table.marks if mark.life == self._life]
        rules = marks[0].rules_before if marks else machine.rules
        self._refold = Refold(machine, local=local, rules=rules)
        self._stood: dict[str, int] = {}
        self._late: dict[str, tuple[int, str]] = {}
        self.tally = Tally()
        self._fences()
        if not whole:
            self._adopt()

    def take(self, read: Read) -> Step | None:
        """Folds one record; None where it lies before the state that its key was begun with.

        Raises:
            Unjudged: rules that this program does not know decide it.
        """
        kept = self._refold.keys.get(read.key)
        if not self._whole and kept is not None and read.offset <= kept.offset:
            self._stood[read.key] = kept.offset
            return None
        step = self._refold.take(read)
        self.tally.events += 1
        self.tally.dead_letters += bool(step.dead)
        if step.folded:
            self._compare(step)
            for field, wanted, is_ in self._law(step):
                self._differ(Check.LAW, read.offset, read.key, field, wanted, is_)
        return step

    def finish(self) -> None:
        """Looks at what the log had no event for."""
        rows = self._table.rows
        for key, kept in self._refold.keys.items():
            absent = key not in rows or rows[key].raw is None
            if absent and kept.offset < self._bounds.settled:
                self._differ(Check.STATE, kept.offset, key, "state", shown(kept.state), ABSENT)
        for key, (late, what) in self._late.items():
            stands = f"as of offset {offset_of(rows[key].seq)}"
            self._differ(Check.STATE, late, key, what, f"folded at {late}", stands)
        for key, row in rows.items():
            if row.raw is None or key in self._stood:
                continue
            at = offset_of(row.seq)
            if not self._whole and self._of_the_past(row):
                continue
            self._differ(Check.STATE, at, key, "offset", "no such event", str(at))
        here = (key for key, row in rows.items() if row.raw is not None)
        self.tally.keys = len({*self._refold.keys, *here})

    def _compare(self, step: Step) -> None:
        """The record of the key, at the event it stands at and behind it."""
        key, offset = step.read.key, step.read.offset
        row = self._table.rows.get(key)
        if row is None or row.raw is None:
            return
        at = offset_of(row.seq)
        if offset == at and row.seq >> records.LIFE_BITS == self._life:
            self._stood[key] = offset
            self._compare_states(step, row.raw)
        elif at < offset < self._bounds.settled and (step.after != step.before or step.outputs):
            what = "state" if step.after != step.before else "outputs"
            self._late.setdefault(key, (offset, what))

    def _compare_states(self, step: Step, raw: bytes) -> None:
        key = step.read.key
        stored: Stored[Any] = records.decode(raw, self._machine.state)
        unequal = first_unequal(step.after, stored.state, "state")
        if unequal is None and step.after is not None and step.event is not None:
            unequal = first_unequal(
                (step.event.append_ms, step.rules), (stored.now_ms, stored.rules), "(now_ms, rules)"
            )
        if unequal is None:
            self.tally.equal += 1
        else:
            self._differ(Check.STATE, step.read.offset, key, *unequal)

    def _adopt(self) -> None:
        """Begins each key with the record that its remaining events follow."""
        for key, row in self._table.rows.items():
            if row.base is None:
                continue
            base: Stored[Any] = records.decode(row.base, self._machine.state)
            here = row.base_seq >> records.LIFE_BITS == self._life
            offset = offset_of(row.base_seq) if here else -1
            self._refold.adopt(key, Kept(offset, base.now_ms, base.state))
            self.tally.adopted += 1
            unread = row.base_seq >= seq_at(self._life, self._bounds.start)
            self.tally.unproven += unread and row.base_seq == row.seq

    def _fences(self) -> None:
        """What stands last in the changelog is what compaction keeps: it must be the newest."""
        for key, row in self._table.rows.items():
            if row.last_seq < row.seq:
                at, newest = offset_of(row.last_seq), offset_of(row.seq)
                self._differ(Check.FENCE, newest, key, "last record", f"of {newest}", f"of {at}")

    def _of_the_past(self, row: Row) -> bool:
        return row.seq < seq_at(self._life, self._bounds.start) or row.base_seq == row.seq

    def _differ(
        self, check: Check, offset: int, key: str, field: str, log: str, found: str
    ) -> None:
        self._found.add(
            Difference(
                check=check,
                machine=self._machine.name,
                topic=self._machine.inbox.name,
                partition=self._partition,
                offset=offset,
                key=key,
                field=field,
                log=log,
                found=found,
            )
        )
