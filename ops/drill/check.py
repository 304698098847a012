"""The invariants of the drill, I1 to I9 and the idempotency key, judged from one cell's evidence. Pure.

Owns the list of checks. Looks only at evidence; how much of it there was is told with the verdict, since
a check that saw nothing finds nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from ops.drill import check_accounts, check_lives, check_streams
from ops.drill.evidence import Evidence
from ops.drill.finding import Finding, Invariant
from ops.drill.history import Outcome, outcome

MEMORY_GROWTH_BYTES_MAX: Final = 96 * 1_048_576
FINDINGS_MAX: Final = 100
"""Findings kept of one check; the rest are counted."""


class Verdict(msgspec.Struct, kw_only=True):
    """What one cell came to."""

    findings: list[Finding]
    looked_at: dict[str, int]
    """How much each kind of evidence held: a cell without any proves nothing."""

    @property
    def held(self) -> bool:
        return not self.findings


Check = Callable[[Evidence], Iterator[Finding]]


def log_proven(evidence: Evidence) -> Iterator[Finding]:
    """I6: the state is the fold of the log."""
    if evidence.unjudged:
        yield Finding(Invariant.I6, f"the log cannot be judged: {evidence.unjudged}")
    for difference in evidence.differences:
        what = f"{difference.check.value} of {difference.machine}, {difference.field}"
        yield Finding(
            Invariant.I6,
            f"{what}: log {difference.log}, found {difference.found}",
            evidence=(
                f"{difference.topic} partition {difference.partition} offset {difference.offset}",
                f"key {difference.key}",
            ),
        )


def memory_bounded(evidence: Evidence) -> Iterator[Finding]:
    """I9: no process grew without bound over the faults."""
    for memory in evidence.memory:
        if memory.after - memory.before > MEMORY_GROWTH_BYTES_MAX:
            grown = (memory.after - memory.before) // 1_048_576
            yield Finding(Invariant.I9, f"{memory.part} grew by {grown} MiB")


CHECKS: Final[tuple[Check, ...]] = (
    check_lives.no_accepted_loss,
    check_lives.one_terminal,
    check_accounts.one_settlement,
    check_accounts.quota_bound,
    check_streams.streams,
    check_streams.rendered_is_stored,
    check_lives.old_epochs_dropped,
    log_proven,
    check_lives.ended_in_time,
    check_lives.served_after_heal,
    check_streams.no_foreign_data,
    memory_bounded,
    check_accounts.one_generation_a_key,
)


def check(evidence: Evidence) -> Verdict:
    """Runs every check."""
    findings: list[Finding] = []
    for one in CHECKS:
        for number, finding in enumerate(one(evidence)):
            if number == FINDINGS_MAX:
                break
            findings.append(finding)
    outcomes = Counter(outcome(one) for one in evidence.seen)
    return Verdict(
        findings=findings,
        looked_at={
            "calls": len(evidence.seen),
            **{one.value: outcomes[one] for one in Outcome},
            "accepted": sum(one.accepted for one in evidence.seen),
            "streamed events": sum(len(one.shown) for one in evidence.seen),
            "generations": len(evidence.lives),
            "rows": len(evidence.rows),
        },
    )
