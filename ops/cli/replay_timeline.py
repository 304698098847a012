"""Which records tell of one generation, and what each did. Pure; never gives private text.

A record belongs when it names the generation, is keyed by it, answers a request of it, or is a
deadline of its run. Fields come out by what they are: ids, counts, times and words of enums; bytes
and whatever a schema marks as content never do.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from ops.log_scan import Read
from schemas.catalogue import definitions
from schemas.generated import types
from topics.errors import InvalidRecord
from topics.registry import ACCOUNTS_INBOX, DEAD_LETTERS, MACHINE_INBOXES, RUNS_INBOX, TOPICS
from topics.topic import Topic
from topics.wire import decode

CONTENT_MARK: Final = "content:"
# In which order records of one millisecond are shown: the order in which they cause each other.
LIFE: Final = (
    "Submit",
    "AdmissionFact",
    "Start",
    "RunFact",
    "StepRequest",
    "Open",
    "Queued",
    "Claim",
    "Granted",
    "ClaimRefused",
    "Consume",
    "Owned",
    "Stop",
    "StopOrder",
    "Finished",
    "Settle",
    "Release",
    "SettlementFact",
    "Used",
    "UsageFact",
    "Freed",
    "Ended",
    "Closed",
)
_RANK: Final = {name: at for at, name in enumerate(LIFE)}


class Moment(msgspec.Struct, frozen=True):
    """One record of the generation's life. `fields` are safe to show; `what` is its schema's doc."""

    append_ms: int
    topic: str
    partition: int
    offset: int
    record: str
    what: str
    fields: Mapping[str, Any]


class Follower:
    """Picks one generation's records. Fed with the accounts' inbox first: it names what to look for."""

    def __init__(self, generation_id: str) -> None:
        self._generation_id = generation_id
        self._request_ids: set[str] = set()
        self._run_keys: set[str] = set()

    def take(self, read: Read, topic: Topic) -> Moment | None:
        """What a record did for the generation, or None where it is not about it."""
        value = value_of(read, topic)
        if value is None or not self._concerns(read, topic, value):
            return None
        for name, found in _leaves(value):
            if name == "request_id" and found:
                self._request_ids.add(found)
            elif name == "runs_key":
                self._run_keys.add(found)
        return moment(read, topic, value)

    def _concerns(self, read: Read, topic: Topic, value: msgspec.Struct) -> bool:
        if read.key == self._generation_id:
            return True
        if isinstance(getattr(value, "body", None), types.Due):
            return topic is RUNS_INBOX and read.key in self._run_keys
        leaves = list(_leaves(value))
        if any(n == "generation_id" and found == self._generation_id for n, found in leaves):
            return True
        if isinstance(value, types.EdgeReply | types.AccountsInbox):
            return any(n == "request_id" and found in self._request_ids for n, found in leaves)
        return False


def first_topics() -> tuple[Topic, ...]:
    """What a `Follower` must be fed with before the rest."""
    return (ACCOUNTS_INBOX,)


def rest_topics() -> tuple[Topic, ...]:
    """All others that can be read; a machine's state tells nothing that its facts do not."""
    first = first_topics()
    return tuple(topic for topic in TOPICS if topic not in first and _record_of(topic) is not None)


def value_of(read: Read, topic: Topic) -> msgspec.Struct | None:
    """The decoded record; None for what has no schema or cannot be read."""
    name = _record_of(topic)
    if name is None:
        return None
    kind: type[msgspec.Struct] = getattr(types, name)
    try:
        return decode(kind, read.value)
    except InvalidRecord:
        return None


def _record_of(topic: Topic) -> str | None:
    return topic.record or _SOURCE_RECORD.get(topic.name)


_SOURCE_RECORD: Final = {
    DEAD_LETTERS[machine].name: inbox.record for machine, inbox in MACHINE_INBOXES.items()
}


def moment(read: Read, topic: Topic, value: msgspec.Struct) -> Moment:
    """One line of the timeline."""
    body = getattr(value, "body", None)
    told = body if isinstance(body, msgspec.Struct) else value
    name = type(told).__name__
    what = str(definitions()[name]["doc"])
    if topic.name in _SOURCE_RECORD:
        what = f"Dead letter: {what}"
    fields = {**_shown(value), **_shown(told)}
    return Moment(read.append_ms, read.topic, read.partition, read.offset, name, what, fields)


def in_order(moments: Iterable[Moment]) -> list[Moment]:
    """By append time; within a millisecond by cause, and never against a partition's own order."""
    partitions: dict[tuple[str, int], list[Moment]] = {}
    for found in moments:
        partitions.setdefault((found.topic, found.partition), []).append(found)
    for records in partitions.values():
        records.sort(key=lambda found: found.offset)
    return list(heapq.merge(*partitions.values(), key=_when))


def _when(found: Moment) -> tuple[int, int, str]:
    return found.append_ms, _RANK.get(found.record, len(LIFE)), found.topic


def _shown(value: msgspec.Struct) -> dict[str, Any]:
    """Scalars of a record that anybody may see; nested records as far as they are counts."""
    docs = {f["name"]: f["doc"] for f in definitions()[type(value).__name__]["fields"]}
    shown: dict[str, Any] = {}
    for name in value.__struct_fields__:
        found = getattr(value, name)
        if found is None or docs[name].startswith(CONTENT_MARK):
            continue
        if isinstance(found, str | int | float):
            shown[name] = found
        elif isinstance(found, types.Usage | types.Spec):
            shown[name] = _shown(found)
    return shown


def _leaves(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Field name and value of every text in a record, however deep."""
    for name in value.__struct_fields__:
        found = getattr(value, name)
        if isinstance(found, msgspec.Struct):
            yield from _leaves(found)
        elif isinstance(found, tuple):
            for item in found:
                if isinstance(item, msgspec.Struct):
                    yield from _leaves(item)
        elif isinstance(found, str):
            yield name, found


# What a person wants to see beside a record's name, in this order.
_DETAILS: Final = (
    "kind", "code", "terminal", "reason", "finish_reason", "epoch", "closing_epoch", "incarnation",
    "hold", "phase", "step_partition", "step_offset", "position", "stop", "queue_ms", "run_ms",
    "code_points", "window",
)  # fmt: skip


def details(found: Moment) -> str:
    """The few fields that say most, for one line."""
    parts = [f"{n} {found.fields[n]}" for n in _DETAILS if found.fields.get(n) not in (None, "")]
    usage = found.fields.get("usage") or found.fields
    if "output_tokens" in usage and "input_tokens" in usage:
        parts.append(f"tokens {usage['input_tokens']} in, {usage['output_tokens']} out")
    return ", ".join(parts)
