"""Outputs on both sides of the proof: as the folds tell them, as the topics hold them. Pure.

Owns which records only a fold can have made, so that one that no fold made is a difference too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from ops.log_scan import Read
from ops.verify.findings import Check, Difference, Unjudged, first_unequal
from ops.verify.ledger import Ledger, Tokens, Told
from ops.verify.refold import Step
from processors.machine import kind
from schemas.generated import types as t
from topics import wire
from topics.errors import InvalidRecord
from topics.partition import partition_of
from topics.registry import (
    BY_NAME,
    CONTROL_STREAMS,
    CONTROL_WORKERS,
    DEAD_LETTERS,
    EDGE_REPLIES,
    FACTS_ADMISSION,
    FACTS_RUNS,
    FACTS_SETTLEMENT,
    FACTS_USAGE,
    FACTS_WORKERS,
    LANE_TOPICS,
    MACHINE_INBOXES,
)
from topics.topic import Topic

_BOTH: Final = frozenset({"accounts", "runs"})
_WHOLE_TOPICS: Final[dict[str, frozenset[str]]] = {
    FACTS_ADMISSION.name: frozenset({"accounts"}),
    FACTS_SETTLEMENT.name: frozenset({"accounts"}),
    FACTS_RUNS.name: frozenset({"runs"}),
    FACTS_WORKERS.name: frozenset({"workers"}),
    FACTS_USAGE.name: frozenset({"metering"}),
    CONTROL_STREAMS.name: frozenset({"runs"}),
    CONTROL_WORKERS.name: frozenset({"runs"}),
    EDGE_REPLIES.name: _BOTH,
    **{topic.name: frozenset({"runs"}) for topic in LANE_TOPICS.values()},
}
"""Topic -> the machines whose folds make every record of it."""
_KINDS: Final = {
    "Start": "accounts",
    **dict.fromkeys(("Consume", "Release", "Settle", "Owned", "Freed", "Used"), "runs"),
    "LeaseExpired": "workers",
}
"""In inboxes: the records that only a machine makes."""
OUTPUT_TOPICS: Final[tuple[Topic, ...]] = (
    *(BY_NAME[name] for name in _WHOLE_TOPICS),
    *MACHINE_INBOXES.values(),
)
_ENCODER: Final = msgspec.msgpack.Encoder()


def told_by(step: Step, machine: str, partition: int, *, local: bool, judged: bool) -> list[Told]:
    """What one step must, or may, have left in the topics."""
    read = step.read
    place = (machine, partition, read.offset, read.append_ms, judged)
    if step.dead:
        letter = dead_letter_id(machine, partition, read.offset)
        return [Told(*place, letter, DEAD_LETTERS[machine].name, partition, read.key, b"")]
    return [
        Told(
            *place,
            output.value.event_id,
            output.topic.name,
            partition_of(output.key, output.topic.ring.partitions(local))
            if output.partition is None
            else output.partition,
            output.key,
            _ENCODER.encode(output.value),
        )
        for output in step.outputs
    ]


def dead_letter_id(machine: str, partition: int, offset: int) -> str:
    """A dead letter's identity is the place of its event."""
    return f"{machine}/{partition}/{offset}"


def tokens_told(step: Step) -> Iterator[Tokens]:
    """Tokens as runs tells accounts and metering of an epoch that decided."""
    for output in step.outputs:
        body = getattr(output.value, "body", None)
        if isinstance(body, t.Settle):
            yield _tokens(body.generation_id, "settled by runs", output.key, body.usage)
        if isinstance(body, t.Used) and not body.void:
            yield _tokens(body.generation_id, "used by runs", body.user_id, body.usage)


def tokens_found(value: Any) -> Tokens | None:
    """Tokens as a fact tells them; None for a fact that tells none."""
    if isinstance(value, t.SettlementFact) and value.usage is not None:
        return _tokens(value.generation_id, "settlement fact", value.user_id, value.usage)
    if isinstance(value, t.UsageFact) and not value.void:
        counts = (value.input_tokens, value.cached_input_tokens, value.output_tokens)
        return Tokens(value.generation_id, "usage fact", value.user_id, *counts)
    return None


def _tokens(generation_id: str, leg: str, user: str, usage: t.Usage) -> Tokens:
    counts = (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens)
    return Tokens(generation_id, leg, user, *counts)


def meet(
    read: Read, ledger: Ledger, machines: frozenset[str], *, strict: bool
) -> Difference | None:
    """Holds one record of an output topic up to what the folds told. `strict`: the whole log was
    folded, so that a record no fold made is a difference.

    Raises:
        Unjudged: it was decided under other plans.
    """
    topic = BY_NAME[read.topic]
    kind_of: type[msgspec.Struct] = getattr(t, topic.record or "")
    try:
        value: Any = wire.decode(kind_of, read.value)
    except InvalidRecord:
        return None  # a record of an inbox that its machine puts aside; judged there
    makers = _WHOLE_TOPICS.get(read.topic) or _makers_of(value)
    if not makers & machines:
        return None
    tokens = tokens_found(value)
    first = tokens is not None and ledger.times_found(value.event_id, read.topic) == 0
    raw = _ENCODER.encode(value)
    right, told = ledger.find(value.event_id, read.topic, read.partition, read.key, raw)
    if right:
        if tokens is not None and first:
            ledger.add_tokens(tokens)
        return None
    if told is None:
        if not strict or not makers <= machines:
            return None
        return _difference(
            read, "/".join(sorted(makers)), kind(value), "made by no fold", "is there"
        )
    log = msgspec.msgpack.decode(told.value, type=kind_of)
    _refuse_other_plans(log, value)
    field, says, is_ = (
        first_unequal(log, value)
        or first_unequal((told.partition, told.key), (read.partition, read.key), "(partition, key)")
        or ("record", "equal", "equal")
    )
    return _difference(read, told.machine, f"{kind(value)}.{field}", says, is_)


def meet_dead_letter(
    read: Read, machine: str, ledger: Ledger, *, strict: bool
) -> Difference | None:
    """Holds one dead letter up to the events that cannot be folded."""
    headers = dict(read.headers)
    place = (headers.get(f"milena-dlq-{name}", b"") for name in ("partition", "offset"))
    partition, offset = (int(raw) if raw.isdigit() else -1 for raw in place)
    id_ = dead_letter_id(machine, partition, offset)
    right, _ = ledger.find(id_, read.topic, read.partition, read.key, b"")
    if right or not strict:
        return None
    reason = headers.get("milena-dlq-reason", b"").decode("ascii", "replace")
    made = _difference(read, machine, "dead letter", f"event {id_} can be folded", reason)
    return msgspec.structs.replace(made, check=Check.DEAD_LETTER)


def absent(told: Told) -> Difference:
    """An output that must be in its topic and is not."""
    dead = told.topic == DEAD_LETTERS[told.machine].name
    what = "dead letter"
    if not dead:
        kind_of: type[msgspec.Struct] = getattr(t, BY_NAME[told.topic].record or "")
        what = kind(msgspec.msgpack.decode(told.value, type=kind_of))
    return Difference(
        check=Check.DEAD_LETTER if dead else Check.OUTPUT,
        machine=told.machine,
        topic=MACHINE_INBOXES[told.machine].name,
        partition=told.source,
        offset=told.at,
        key=told.key,
        field=f"{what} in {told.topic}",
        log=told.id,
        found="absent",
    )


def _refuse_other_plans(log: Any, found: Any) -> None:
    """Decisions under other plans differ in everything: that is no loss, but another question."""
    if isinstance(found, t.AdmissionFact) and log.plan_version != found.plan_version:
        raise Unjudged(
            f"accounts decided under plans {found.plan_version}, the settings here are plans "
            f"{log.plan_version}: give the MILENA_ACCOUNTS_… settings that it ran with"
        )


def _makers_of(value: Any) -> frozenset[str]:
    maker = _KINDS.get(kind(value))
    return frozenset() if maker is None else frozenset({maker})


def _difference(read: Read, machine: str, field: str, log: str, found: str) -> Difference:
    return Difference(
        check=Check.OUTPUT,
        machine=machine,
        topic=read.topic,
        partition=read.partition,
        offset=read.offset,
        key=read.key,
        field=field,
        log=log,
        found=found,
    )
