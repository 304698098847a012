"""What a checker may look at: what clients saw, what the log tells, what the store holds. Pure.

Owns the shapes and the reading of the log into them, each fact once. Judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from connectors.store.rows import Result
from ops.log_scan import Read
from schemas.generated import types as t
from topics import wire
from topics.errors import InvalidRecord
from topics.registry import (
    ACCOUNTS_INBOX,
    FACTS_ADMISSION,
    FACTS_RUNS,
    FACTS_SETTLEMENT,
    FACTS_USAGE,
)
from topics.topic import Topic

TERMINALS: Final = frozenset({"completed", "cancelled", "stopped", "error"})


class Call(StrEnum):
    """What a client asked for."""

    ASK = "ask"
    RESUME = "resume"
    STATUS = "status"
    CANCEL = "cancel"


class Shown(msgspec.Struct, frozen=True):
    """One event of a stream as it reached a client. `name` lacks the prefix "generation."."""

    id: str
    """`<epoch>-<sequence>`; empty where the event had none."""
    name: str
    data: bytes


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One call of one client and what came of it. Times are the client's, epoch milliseconds."""

    client: str
    """Who renders: one after the other, calls of a client on a generation go on with one page."""
    user_id: str
    call: Call
    began_ms: int
    ended_ms: int
    status: int | None
    """HTTP status; None where no answer came, so that the outcome is unknown."""
    code: str = ""
    """Of a refusal."""
    generation_id: str = ""
    """Asked for, or answered."""
    idempotency_key: str = ""
    body: str = ""
    """A digest of what was asked."""
    after: str | None = None
    """`Last-Event-ID`."""
    shown: tuple[Shown, ...] = ()

    @property
    def accepted(self) -> bool:
        """The client was told that its answer is on the way."""
        return self.call is Call.ASK and self.status == 200 and bool(self.generation_id)


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of one process, bytes, before the faults and after all is quiet again."""

    part: str
    before: int
    after: int


class Life(msgspec.Struct):
    """All facts of one generation, each once, in the order of their topic."""

    spec: t.Spec | None = None
    """As it was asked for, where its `Submit` is still in the log."""
    admission: list[t.AdmissionFact] = []
    settlement: list[t.SettlementFact] = []
    runs: list[t.RunFact] = []
    usage: list[t.UsageFact] = []

    def told(self, kind: t.RunKind) -> list[t.RunFact]:
        return [fact for fact in self.runs if fact.kind is kind]

    def settled(self, kind: t.SettlementKind) -> list[t.SettlementFact]:
        return [fact for fact in self.settlement if fact.kind is kind]

    @property
    def admitted(self) -> t.AdmissionFact | None:
        """Its first admission; repeats tell the same."""
        for fact in self.admission:
            if fact.kind is t.AdmissionKind.ADMITTED:
                return fact
        return None


class Evidence(msgspec.Struct, kw_only=True):
    """Everything of one cell. Times are epoch milliseconds."""

    seen: Sequence[Seen]
    lives: Mapping[str, Life]
    rows: Mapping[str, Result]
    healed_ms: int
    """The last fault ended."""
    read_ms: int
    """When log and store were read."""
    answer_s_max: float
    """Longest that an answer of this load takes on a healthy stack."""
    differences: Sequence[Any] = ()
    """What `milena verify` found."""
    unjudged: str = ""
    """Why `milena verify` could not judge; empty where it did."""
    memory: Sequence[Memory] = ()


FACTS: Final[Mapping[str, type[Any]]] = {
    FACTS_ADMISSION.name: t.AdmissionFact,
    FACTS_SETTLEMENT.name: t.SettlementFact,
    FACTS_RUNS.name: t.RunFact,
    FACTS_USAGE.name: t.UsageFact,
}
TOPICS: Final[tuple[Topic, ...]] = (
    ACCOUNTS_INBOX,
    FACTS_ADMISSION,
    FACTS_SETTLEMENT,
    FACTS_RUNS,
    FACTS_USAGE,
)
"""What `lives_of` wants to read."""


def lives_of(reads: Iterable[Read]) -> dict[str, Life]:
    """Each generation's facts; duplicates by event id are one."""
    lives: dict[str, Life] = {}
    met: set[str] = set()
    for read in reads:
        kind = FACTS.get(read.topic, t.AccountsInbox)
        try:
            value = wire.decode(kind, read.value)
        except InvalidRecord:
            continue  # put aside by its machine, which the proof of the log judges
        if isinstance(value, t.AccountsInbox):
            if isinstance(value.body, t.Submit):
                spec = value.body.spec
                lives.setdefault(spec.generation_id, Life()).spec = spec
        elif value.event_id not in met:
            met.add(value.event_id)
            _note(lives.setdefault(value.generation_id, Life()), value)
    return lives


def _note(life: Life, fact: Any) -> None:
    match fact:
        case t.AdmissionFact():
            life.admission.append(fact)
        case t.SettlementFact():
            life.settlement.append(fact)
        case t.RunFact():
            life.runs.append(fact)
        case t.UsageFact():
            life.usage.append(fact)
