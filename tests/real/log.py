"""What the log says of one generation, as an analyst would read it."""

import time
from typing import Any

import msgspec

from ops.cli.replay_scan import records
from ops.stack.fresh import FreshStack
from schemas.generated.types import AdmissionFact, RunFact, SettlementFact, UsageFact
from topics import wire
from topics.registry import FACTS_ADMISSION, FACTS_RUNS, FACTS_SETTLEMENT, FACTS_USAGE

_TYPES: dict[str, type[Any]] = {
    FACTS_ADMISSION.name: AdmissionFact,
    FACTS_SETTLEMENT.name: SettlementFact,
    FACTS_RUNS.name: RunFact,
    FACTS_USAGE.name: UsageFact,
}
LOOK_BACK_MS = 10 * 60_000


class Facts(msgspec.Struct):
    """One generation's facts in the order of the log, each once (consumers dedupe by event id)."""

    admission: list[AdmissionFact] = []
    settlement: list[SettlementFact] = []
    runs: list[RunFact] = []
    usage: list[UsageFact] = []


def facts_of(stack: FreshStack, generation_id: str) -> Facts:
    """Reads the fact topics of the last ten minutes."""
    found, seen = Facts(), set[str]()
    by_type: dict[type[Any], list[Any]] = {
        AdmissionFact: found.admission,
        SettlementFact: found.settlement,
        RunFact: found.runs,
        UsageFact: found.usage,
    }
    topics = [FACTS_ADMISSION, FACTS_SETTLEMENT, FACTS_RUNS, FACTS_USAGE]
    since_ms = int(time.time() * 1_000) - LOOK_BACK_MS
    for record in records(f"127.0.0.1:{stack.base + 10}", topics, since_ms):
        fact = wire.decode(_TYPES[record.topic], record.value)
        if fact.generation_id == generation_id and fact.event_id not in seen:
            seen.add(fact.event_id)
            by_type[type(fact)].append(fact)
    return found
