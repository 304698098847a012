"""`fold(log) == table == counters == usage facts`, over a whole log. Owns the order of reading.

The order makes it exact under load, without a pause of the machines: first every inbox's end is noted,
that of runs before those it writes to; once the machines committed all before it, the changelogs and
output topics are noted; last the inboxes' ends again. So every recorded output has its event among
those folded, and every event before the first end has all its outputs among those read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from ops.log_scan import Read
from ops.verify import told as outputs
from ops.verify.findings import Check, Difference, Unjudged
from ops.verify.judge import Bounds, Found, PartitionJudge, Tally
from ops.verify.ledger import Ledger, Told
from ops.verify.source import Extent, Source
from ops.verify.table import Table, note_bases, table_of
from processors.machine import Machine
from processors.stored import seq_at
from topics.registry import CHANGELOGS, DEAD_LETTERS
from topics.topic import Topic

SETTLE_S_MAX: Final = 30.0
"""Longest wait for the machines to commit what was in their inboxes when the proof began."""
LOOK_S: Final = 0.2
ORDER: Final = ("runs", "accounts", "metering", "workers")
"""In which inboxes are closed: what runs tells of an event stands in the others' by then."""
FOREVER_MS: Final = 1 << 62

Say = Callable[[str], None]


class Span(msgspec.Struct, frozen=True):
    """What is to be proven, epoch milliseconds; `from_ms` None is as far back as the log reaches."""

    from_ms: int | None = None
    to_ms: int = FOREVER_MS


class MachineProof(msgspec.Struct, kw_only=True):
    """What one machine's part of the proof rests on."""

    machine: str
    partitions: int
    tally: Tally
    outputs: int = 0
    outputs_found: int = 0
    cut_ms: int | None = None
    """Append time of the first event kept, where older ones are gone: latest of its partitions."""

    recreated: int = 0
    """Partitions whose inbox was re-created and adopted: what came before is known by states only."""

    @property
    def whole(self) -> bool:
        """The log was folded from its very first event."""
        return self.cut_ms is None and self.recreated == 0


class Proof(msgspec.Struct, kw_only=True):
    """What was compared, and the differences: the first ones, and how many there are."""

    span: Span
    machines: list[MachineProof]
    generations: int = 0
    """Whose tokens were told by runs and held up to settlements and usage facts."""
    tokens: dict[str, int] = {}
    """Output tokens of these generations, as each of the four tells them."""
    outputs_cut: int = 0
    """Outputs older than what their topic keeps."""
    records: int = 0
    seconds: float = 0.0
    count: int = 0
    differences: list[Difference] = []

    @property
    def proven(self) -> bool:
        return self.count == 0


def prove(
    source: Source, machines: Sequence[Machine[Any]], span: Span, *, local: bool, say: Say
) -> Proof:
    """Reads the log of these machines and judges it.

    Raises:
        Unjudged: an event stays in flight, the log does not reach back, or rules are unknown.
        KafkaException: the broker does not answer.
    """
    return _Proving(source, machines, span, local=local, say=say).run()


class _Proving:
    def __init__(
        self, source: Source, machines: Sequence[Machine[Any]], span: Span, *, local: bool, say: Say
    ) -> None:
        self._source = source
        self._span = span
        self._local = local
        self._say = say
        self._machines = sorted(machines, key=lambda machine: ORDER.index(machine.name))
        self._names = frozenset(machine.name for machine in machines)
        self._found = Found()
        self._proof = Proof(span=span, machines=[], tokens={})
        self._since_s = time.monotonic()

    def run(self) -> Proof:
        settled = {machine.name: self._settle(machine) for machine in self._machines}
        topics = (*outputs.OUTPUT_TOPICS, *(DEAD_LETTERS[name] for name in sorted(self._names)))
        told = {topic.name: (topic, self._source.extents(topic)) for topic in topics}
        changelogs = {name: self._source.extents(CHANGELOGS[name]) for name in self._names}
        inboxes = {m.name: self._source.extents(m.inbox) for m in self._machines}
        ledger = Ledger()
        try:
            for machine in self._machines:
                name = machine.name
                self._fold(machine, settled[name], inboxes[name], changelogs[name], ledger)
            for topic, extents in told.values():
                self._meet(topic, extents, ledger)
            self._missing(told, ledger)
            self._usage(ledger)
            for proof in self._proof.machines:
                proof.outputs, proof.outputs_found = ledger.counts(proof.machine)
        finally:
            ledger.close()
        self._proof.seconds = round(time.monotonic() - self._since_s, 1)
        self._proof.count = self._found.count
        self._proof.differences = self._found.first
        return self._proof

    def _settle(self, machine: Machine[Any]) -> dict[int, int]:
        """Where each inbox partition ends, once the machine committed all of it.

        Raises:
            Unjudged: it does not in time.
        """
        extents = self._source.extents(machine.inbox)
        if not extents:
            raise Unjudged(f"there is no topic {machine.inbox.name}: nothing was ever folded")
        deadline = time.monotonic() + SETTLE_S_MAX
        while True:
            committed = self._source.committed(machine.name, len(extents))
            behind = {
                partition: (committed.get(partition, 0), end)
                for partition, (start, end) in extents.items()
                if committed.get(partition, 0) < end > start
            }
            if not behind:
                return {partition: end for partition, (_, end) in extents.items()}
            if time.monotonic() > deadline:
                partition, (at, end) = min(behind.items())
                if self._nothing_between(machine.inbox, behind):
                    return {partition: end for partition, (_, end) in extents.items()}
                raise Unjudged(
                    f"{end - at} events of {machine.inbox.name} partition {partition} are in flight: "
                    f"{machine.name} committed {at} of {end}; is it running? See `milena status`"
                )
            self._say(f"waiting for {machine.name} to commit {len(behind)} partitions")
            time.sleep(LOOK_S)

    def _nothing_between(self, inbox: Topic, behind: Mapping[int, Extent]) -> bool:
        """Offsets without a record, as an aborted transaction leaves them, are never committed."""
        return next(iter(self._source.read(inbox, behind)), None) is None

    def _fold(
        self,
        machine: Machine[Any],
        settled: Mapping[int, int],
        inbox: Mapping[int, Extent],
        changelog: Mapping[int, Extent],
        ledger: Ledger,
    ) -> None:
        proof = MachineProof(machine=machine.name, partitions=len(inbox), tally=Tally())
        self._proof.machines.append(proof)
        for partition, (start, end) in sorted(inbox.items()):
            extent = {partition: changelog.get(partition, (0, 0))}
            changes = CHANGELOGS[machine.name]
            table = table_of(self._counted(changes, extent))
            life = table.life
            cut = start > 0 or life > 1
            proof.recreated += life > 1
            if start > 0:
                proof.cut_ms = max(
                    proof.cut_ms or 0, self._first_ms(machine.inbox, partition, start, end)
                )
                self._refuse_cut(machine, partition, proof.cut_ms)
            kept_whole = extent[partition][0] == 0 and table.count == extent[partition][1]
            if cut:
                note_bases(table, self._source.read(changes, extent), seq_at(life, start))
                if kept_whole:
                    _without_late_bases(table, seq_at(life, start))
            bounds = Bounds(
                start=start,
                settled=settled[partition],
                end=end,
                from_ms=self._span.from_ms or 0,
                to_ms=self._span.to_ms,
            )
            judge = PartitionJudge(
                machine, partition, table, bounds, self._found, local=self._local, whole=not cut
            )
            for read in self._counted(machine.inbox, {partition: (start, end)}):
                step = judge.take(read)
                if step is None:
                    continue
                judged = bounds.judged(read)
                for one in outputs.told_by(
                    step, machine.name, partition, local=self._local, judged=judged
                ):
                    ledger.tell(one)
                if judged and machine.name == "runs":
                    for tokens in outputs.tokens_told(step):
                        ledger.add_tokens(tokens)
            judge.finish()
            _add(proof.tally, judge.tally)

    def _meet(self, topic: Topic, extents: Mapping[int, Extent], ledger: Ledger) -> None:
        strict = all(proof.whole for proof in self._proof.machines)
        machine = next((name for name, dlq in DEAD_LETTERS.items() if dlq is topic), None)
        for read in self._counted(topic, extents):
            if machine is None:
                difference = outputs.meet(read, ledger, self._names, strict=strict)
            else:
                difference = outputs.meet_dead_letter(read, machine, ledger, strict=strict)
            if difference is not None:
                self._found.add(difference)

    def _missing(
        self, topics: Mapping[str, tuple[Topic, Mapping[int, Extent]]], ledger: Ledger
    ) -> None:
        """What must be there and is not; what its topic no longer keeps is only counted."""
        first_ms: dict[tuple[str, int], int] = {}
        for one in ledger.missing():
            topic, extents = topics[one.topic]
            start, end = extents.get(one.partition, (0, 0))
            place = (one.topic, one.partition)
            if start > 0 and place not in first_ms:
                first_ms[place] = self._first_ms(topic, one.partition, start, end)
            if start > 0 and _gone(one, first_ms[place]):
                self._proof.outputs_cut += 1
            else:
                self._found.add(outputs.absent(one))

    def _usage(self, ledger: Ledger) -> None:
        """Each granted generation's tokens, told four times, are the same four times."""
        if not {"runs", "accounts", "metering"} <= self._names:
            return
        legs_wanted = ("used by runs", "settled by runs", "settlement fact", "usage fact")
        sums = dict.fromkeys(legs_wanted, 0)
        for legs in ledger.tokens():
            by_runs = legs.get(legs_wanted[0])
            if by_runs is None:
                continue
            self._proof.generations += 1
            for leg in legs_wanted:
                tokens = legs.get(leg)
                sums[leg] += tokens.output if tokens else 0
                if tokens is None and self._proof.outputs_cut:
                    continue
                if tokens is None or tokens[3:] != by_runs[3:]:
                    self._found.add(_tokens_differ(by_runs.generation, leg, by_runs, tokens))
        self._proof.tokens = sums

    def _counted(self, topic: Topic, extents: Mapping[int, Extent]) -> Any:
        for read in self._source.read(topic, extents):
            self._proof.records += 1
            if self._proof.records % 5_000 == 0:
                self._say(f"{self._proof.records} records read, now {topic.name}")
            yield read

    def _first_ms(self, topic: Topic, partition: int, start: int, end: int) -> int:
        """Append time of the first record kept; for ever where none is."""
        if start >= end:
            return FOREVER_MS
        first: Read | None = next(iter(self._source.read(topic, {partition: (start, end)})), None)
        return FOREVER_MS if first is None else first.append_ms

    def _refuse_cut(self, machine: Machine[Any], partition: int, cut_ms: int) -> None:
        if self._span.from_ms is not None and self._span.from_ms < cut_ms:
            raise Unjudged(
                f"retention cut {machine.inbox.name} partition {partition}: its first event is of "
                f"{cut_ms}, the span begins at {self._span.from_ms}; a later --from can be proven"
            )


def _without_late_bases(table: Table, first_seq: int) -> None:
    """A changelog that was never compacted shows a key's first record: one made behind the cut began
    with nothing."""
    for row in table.rows.values():
        if row.base_seq >= first_seq:
            row.base, row.base_seq = None, -1


def _gone(one: Told, first_ms: int) -> bool:
    return one.append_ms <= first_ms


def _add(total: Tally, more: Tally) -> None:
    for name in total.__struct_fields__:
        setattr(total, name, getattr(total, name) + getattr(more, name))


def _tokens_differ(generation: str, leg: str, wanted: Any, is_: Any) -> Difference:
    def counts(tokens: Any) -> str:
        if tokens is None:
            return "absent"
        return f"{tokens.input} in, {tokens.cached} cached, {tokens.output} out"

    return Difference(
        check=Check.USAGE,
        machine="metering" if leg == "usage fact" else "accounts",
        topic="",
        partition=-1,
        offset=-1,
        key=generation,
        field=leg,
        log=counts(wanted),
        found=counts(is_),
    )
