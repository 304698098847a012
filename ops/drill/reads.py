"""What a fault left on the log. Owns the reading of those few topics; writes nothing."""

from __future__ import annotations

from ops.drill.ground import Ground
from ops.log_scan import records
from schemas.generated.types import WorkerFact, WorkerKind
from topics import wire
from topics.registry import DEAD_LETTERS, FACTS_WORKERS


def leases_lost(ground: Ground, since_ms: int) -> int:
    """Epochs that were lost with their worker since then."""
    found = {}
    for read in records(ground.bootstrap, [FACTS_WORKERS], since_ms):
        fact = wire.decode(WorkerFact, read.value)
        if fact.kind is WorkerKind.LEASE_EXPIRED:
            found[fact.event_id] = fact.epochs_lost
    return sum(found.values())


def dead_letters(ground: Ground, machine: str, since_ms: int) -> int:
    """Records of a machine's inbox that were put aside since then."""
    return sum(1 for _ in records(ground.bootstrap, [DEAD_LETTERS[machine]], since_ms))
