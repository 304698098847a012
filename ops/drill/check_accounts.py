"""Money: one settlement for a hold, no quota overrun, one generation for a key. Pure.

Owns I3 and the rules of the idempotency key; reads facts and calls, never counts by itself what it
should compare.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Final

from ops.drill.evidence import Call, Evidence, Life, Seen
from ops.drill.finding import Finding, Invariant
from schemas.generated.types import (
    AdmissionFact,
    AdmissionKind,
    ReleaseReason,
    RunKind,
    SettlementFact,
    SettlementKind,
)

CONFLICT: Final = 409
OK: Final = 200
BY_USER: Final = frozenset({ReleaseReason.CANCELLED, ReleaseReason.STOPPED})
_ORDER: Final = (SettlementKind.CONSUMED, SettlementKind.RELEASED, SettlementKind.SETTLED)


def one_settlement(evidence: Evidence) -> Iterator[Finding]:
    """I3: a hold is consumed or released, once; what was consumed is settled, once; tokens count once."""
    for generation_id, life in evidence.lives.items():
        counts = {kind: len(life.settled(kind)) for kind in _ORDER}
        consumed, released, settled = (counts[kind] for kind in _ORDER)
        told = tuple(f"{kind.value}: {count}" for kind, count in counts.items())
        if max(counts.values()) > 1:
            yield Finding(Invariant.I3, "a hold ended twice", generation_id, evidence=told)
        elif released and (consumed or settled):
            yield Finding(Invariant.I3, "released and consumed", generation_id, evidence=told)
        elif settled and not consumed:
            yield Finding(Invariant.I3, "settled, never consumed", generation_id, evidence=told)
        over = bool(life.told(RunKind.ENDED) or life.told(RunKind.REFUSED))
        if over and life.admitted is not None and not released and not settled:
            yield Finding(Invariant.I3, "ended, its hold never did", generation_id, evidence=told)
        paid = Counter(fact.epoch for fact in life.usage if not fact.void)
        if max(paid.values(), default=0) > 1 or len(paid) > 1:
            epochs = tuple(f"epoch {epoch}: {count}" for epoch, count in paid.items())
            yield Finding(Invariant.I3, "tokens count twice", generation_id, evidence=epochs)
        yield from _same_tokens(generation_id, life)


def _same_tokens(generation_id: str, life: Life) -> Iterator[Finding]:
    usages = [fact.usage for fact in life.settled(SettlementKind.SETTLED) if fact.usage]
    for fact in life.usage:
        if not fact.void and usages and usages[0].output_tokens != fact.output_tokens:
            told = (f"settled {usages[0].output_tokens}", f"metered {fact.output_tokens}")
            yield Finding(
                Invariant.I3, "other tokens settled than metered", generation_id, evidence=told
            )


def quota_bound(evidence: Evidence) -> Iterator[Finding]:
    """I3: `used + held <= limit`, in every fact and in the sum of all admissions of a window."""
    taken: defaultdict[tuple[str, int], int] = defaultdict(int)
    limits: dict[tuple[str, int], int] = {}
    for generation_id, life in evidence.lives.items():
        admitted = life.admitted
        facts: list[AdmissionFact | SettlementFact] = [*life.settlement]
        if admitted is not None and not admitted.emergency:
            facts.append(admitted)
        for fact in facts:
            if fact.used + fact.held > fact.limit:
                what = f"{fact.used} used and {fact.held} held of {fact.limit}"
                yield Finding(Invariant.I3, what, generation_id, evidence=(f"user {fact.user_id}",))
        if admitted is not None and admitted.window_start_at is not None:
            window = (admitted.user_id, admitted.window_start_at)
            limits[window] = max(admitted.limit, limits.get(window, 0))
            taken[window] += not life.settled(SettlementKind.RELEASED)
    for window, count in taken.items():
        if count > limits[window]:
            what = f"{count} admissions kept of {limits[window]} in one window"
            yield Finding(Invariant.I3, what, evidence=(f"user {window[0]}, window {window[1]}",))


def one_generation_a_key(evidence: Evidence) -> Iterator[Finding]:
    """The same key and body name one generation, unless the earlier one was released by the system;
    the same key with another body is a conflict."""
    asked: defaultdict[tuple[str, str], list[Seen]] = defaultdict(list)
    for one in evidence.seen:
        if one.call is Call.ASK and one.idempotency_key:
            asked[(one.user_id, one.idempotency_key)].append(one)
    for calls in asked.values():
        answered = [one for one in calls if one.status == OK and one.generation_id]
        bound = {one.generation_id: one for one in answered if not _unbound(evidence, one)}
        if len(bound) > 1:
            first, second = list(bound.values())[:2]
            same = first.body == second.body
            what = "one key, two generations" if same else "one key, two bodies, both accepted"
            yield Finding(
                Invariant.KEY, what, second.generation_id, second.client, (first.generation_id,)
            )
        bodies = {one.body for one in bound.values()}
        for one in calls if bodies else ():
            conflict = one.status == CONFLICT and one.code == "idempotency_conflict"
            if one.body in bodies and conflict:
                what = "a conflict with its own body"
                yield Finding(Invariant.KEY, what, one.generation_id, one.client)
            elif one.body not in bodies and one.status == OK:
                what = "another body under a key was accepted"
                yield Finding(Invariant.KEY, what, one.generation_id, one.client)


def _unbound(evidence: Evidence, one: Seen) -> bool:
    """Its hold was given back before a grant, and not by the user: the key may be decided afresh."""
    life = evidence.lives.get(one.generation_id)
    if life is None:
        return False
    released = life.settled(SettlementKind.RELEASED)
    refused = any(fact.kind is AdmissionKind.REFUSED for fact in life.admission)
    return refused or any(fact.release_reason not in BY_USER for fact in released)
