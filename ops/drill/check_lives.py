"""Lives of generations: nothing accepted is lost, each ends once and in time. Pure.

Owns I1, I2, I5 and I7 as they show in facts, rows and what clients were told.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from connectors.redis.layout import parse_id
from ops.drill.evidence import TERMINALS, Call, Evidence, Life, Seen
from ops.drill.finding import Finding, Invariant
from schemas.generated.types import RunFact, RunKind, Terminal

GRACE_MS: Final = 30_000
"""Everything accepted ends this long after its deadline, once the faults stopped."""
SERVER_ERROR: Final = 500
TERMINAL_EVENTS: Final = {
    Terminal.COMPLETED: "completed",
    Terminal.CANCELLED: "cancelled",
    Terminal.STOPPED: "stopped",
    Terminal.FAILED: "error",
}


def no_accepted_loss(evidence: Evidence) -> Iterator[Finding]:
    """I1: what a client was promised, and what accounts admitted, has an end in log and store."""
    promised = {one.generation_id: one for one in evidence.seen if one.accepted}
    for generation_id, one in promised.items():
        life = evidence.lives.get(generation_id)
        if life is None or life.admitted is None:
            yield _lost(one, "accepted, but never admitted in the log")
        elif not life.told(RunKind.ENDED):
            yield _lost(one, "accepted, but its run never ended", life)
        elif generation_id not in evidence.rows:
            yield _lost(one, "accepted, but the store has no row of its end", life)
    for generation_id, life in evidence.lives.items():
        over = life.told(RunKind.ENDED) or life.told(RunKind.REFUSED)
        if life.admitted is not None and not over and generation_id not in promised:
            yield Finding(
                Invariant.I1,
                "admitted, but its run never ended",
                generation_id,
                evidence=_told(life),
            )


def one_terminal(evidence: Evidence) -> Iterator[Finding]:
    """I2: one end in the log, one in the store, and every client saw that one."""
    for generation_id, life in evidence.lives.items():
        ends = life.told(RunKind.ENDED)
        if len(ends) > 1:
            yield Finding(
                Invariant.I2, f"{len(ends)} ends in the log", generation_id, evidence=_told(life)
            )
        row = evidence.rows.get(generation_id)
        if row is not None and ends and row.status.value != _word(ends[0]):
            what = f"ended {_word(ends[0])}, stored {row.status.value}"
            yield Finding(Invariant.I2, what, generation_id, evidence=_told(life))
    met: dict[str, tuple[str, str]] = {}
    for one in evidence.seen:
        terminals = [shown for shown in one.shown if shown.name in TERMINALS]
        if len(terminals) > 1 or (terminals and terminals[0] is not one.shown[-1]):
            names = tuple(f"{shown.id} {shown.name}" for shown in one.shown[-5:])
            what = "events after a terminal"
            yield Finding(Invariant.I2, what, one.generation_id, one.client, names)
        if not terminals:
            continue
        here = (terminals[0].id, terminals[0].name)
        first = met.setdefault(one.generation_id, here)
        if here != first:
            what = "two clients saw two terminals"
            yield Finding(
                Invariant.I2, what, one.generation_id, one.client, (" ".join(first), " ".join(here))
            )
        yield from _terminal_is_the_end(evidence, one, here)


def _terminal_is_the_end(evidence: Evidence, one: Seen, here: tuple[str, str]) -> Iterator[Finding]:
    life = evidence.lives.get(one.generation_id)
    ends = life.told(RunKind.ENDED) if life else []
    if ends and ends[0].terminal is not None and TERMINAL_EVENTS.get(ends[0].terminal) != here[1]:
        what = f"a client saw {here[1]}, the log says {ends[0].terminal.value}"
        yield Finding(Invariant.I2, what, one.generation_id, one.client)
    row = evidence.rows.get(one.generation_id)
    if row is not None and row.terminal_id is not None and here[0] and row.terminal_id != here[0]:
        what = f"a client saw terminal {here[0]}, the store has {row.terminal_id}"
        yield Finding(Invariant.I2, what, one.generation_id, one.client)


def old_epochs_dropped(evidence: Evidence) -> Iterator[Finding]:
    """I5: only the last granted epoch ends a run and is paid for; the closing epoch keeps the row."""
    for generation_id, life in evidence.lives.items():
        ends, grants = life.told(RunKind.ENDED), life.told(RunKind.GRANTED)
        if not ends:
            continue
        last = max((fact.epoch for fact in grants), default=0)
        if grants and ends[0].epoch != last:
            what = f"ended by epoch {ends[0].epoch}, the last one granted is {last}"
            yield Finding(Invariant.I5, what, generation_id, evidence=_told(life))
        owners = {(fact.epoch, fact.incarnation) for fact in grants}
        if len(owners) > len({epoch for epoch, _ in owners}):
            what = "one epoch was granted to two incarnations"
            yield Finding(Invariant.I5, what, generation_id, evidence=_told(life))
        wrong = [fact.epoch for fact in life.usage if not fact.void and fact.epoch != ends[0].epoch]
        if wrong:
            what = f"tokens of lost epoch {wrong[0]} count"
            yield Finding(Invariant.I5, what, generation_id, evidence=_told(life))
        row = evidence.rows.get(generation_id)
        if row is not None and row.epoch <= ends[0].epoch:
            what = f"the row is of epoch {row.epoch}, not of the closing one"
            yield Finding(Invariant.I5, what, generation_id, evidence=_told(life))
    for one in evidence.seen:
        epochs = [parse_id(shown.id)[0] for shown in one.shown if shown.id]
        for before, after in pairwise(epochs):
            if after < before:
                what = f"an event of epoch {after} after one of {before}"
                yield Finding(Invariant.I5, what, one.generation_id, one.client)
                break


def ended_in_time(evidence: Evidence) -> Iterator[Finding]:
    """I7: what was admitted ended within its deadline and the grace, counted from the heal."""
    for generation_id, life in evidence.lives.items():
        if life.admitted is None:
            continue
        allowed_ms = round(evidence.answer_s_max * 1_000)
        if life.spec is not None:
            allowed_ms = min(allowed_ms, life.spec.queue_wait_ms_max + life.spec.run_ms_max)
        until_ms = max(life.admitted.at, evidence.healed_ms) + allowed_ms + GRACE_MS
        over = [*life.told(RunKind.CLOSED), *life.told(RunKind.REFUSED)]
        at_ms = over[0].at if over else evidence.read_ms
        if at_ms > until_ms:
            how = "closed" if over else "still open"
            late_s = (at_ms - until_ms) / 1_000
            what = f"{how} {late_s:.1f} s after its deadline and the grace"
            yield Finding(Invariant.I7, what, generation_id, evidence=_told(life))


def served_after_heal(evidence: Evidence) -> Iterator[Finding]:
    """I7: a client that asks after the heal and the grace is answered."""
    for one in evidence.seen:
        late = one.began_ms > evidence.healed_ms + GRACE_MS
        if late and (one.status is None or one.status >= SERVER_ERROR):
            what = f"{one.call.value} got {one.status or 'no answer'} {one.code}".rstrip()
            after_s = (one.began_ms - evidence.healed_ms) / 1_000
            yield Finding(
                Invariant.I7,
                f"{what}, {after_s:.1f} s after the faults ended",
                one.generation_id,
                one.client,
            )
    whole = [one for one in evidence.seen if one.call in {Call.ASK, Call.RESUME}]
    for one in whole:
        cut = one.status == 200 and one.shown and one.shown[-1].name not in TERMINALS
        if cut and one.began_ms > evidence.healed_ms + GRACE_MS:
            what = "a stream without its terminal, though the faults had ended"
            yield Finding(Invariant.I7, what, one.generation_id, one.client)


def _lost(one: Seen, what: str, life: Life | None = None) -> Finding:
    told = _told(life) if life else ()
    return Finding(Invariant.I1, what, one.generation_id, one.client, told)


def _word(end: RunFact) -> str:
    return "" if end.terminal is None else end.terminal.value


def _told(life: Life) -> tuple[str, ...]:
    """A life in lines."""
    facts = [f"{f.at} admission {f.kind.value}" for f in life.admission]
    facts += [f"{f.at} settlement {f.kind.value}" for f in life.settlement]
    facts += [f"{f.at} run {f.kind.value} epoch {f.epoch} {f.terminal or ''}" for f in life.runs]
    facts += [f"{f.at} usage epoch {f.epoch}{' void' if f.void else ''}" for f in life.usage]
    return tuple(sorted(facts))
