"""Finds the hop times of generations in the log. Reads records; computes nothing."""

from __future__ import annotations

from typing import Any, Final

from ops.bench.hops import Marks
from ops.log_scan import records
from schemas.generated.types import (
    AccountsInbox,
    Claim,
    Granted,
    Lane,
    RunsInbox,
    Start,
    StepRequest,
    Submit,
    WorkerControl,
)
from topics import wire
from topics.registry import ACCOUNTS_INBOX, CONTROL_WORKERS, LANE_TOPICS, RUNS_INBOX

LANES: Final = [topic for (_, lane), topic in LANE_TOPICS.items() if lane in (Lane.PAID, Lane.FREE)]
TOPICS: Final = [ACCOUNTS_INBOX, RUNS_INBOX, CONTROL_WORKERS, *LANES]
_ENVELOPES: Final[dict[str, type[Any]]] = {
    ACCOUNTS_INBOX.name: AccountsInbox,
    RUNS_INBOX.name: RunsInbox,
    CONTROL_WORKERS.name: WorkerControl,
    **{topic.name: StepRequest for topic in LANES},
}


def _mark(value: Any) -> tuple[str, str] | None:
    """Which hop time a record gives, and for which generation."""
    body = getattr(value, "body", value)
    match body:
        case Submit():
            return "submit_ms", body.spec.generation_id
        case Start():
            return "start_ms", body.spec.generation_id
        case StepRequest():
            return "step_ms", body.spec.generation_id
        case Claim():
            return "claim_ms", body.generation_id
        case Granted():
            return "granted_ms", value.generation_id
    return None


def read_marks(bootstrap: str, from_ms: int) -> dict[str, Marks]:
    """Generation -> its times, of records since `from_ms`; the first of each kind counts."""
    times: dict[str, dict[str, int]] = {}
    for record in records(bootstrap, TOPICS, from_ms):
        found = _mark(wire.decode(_ENVELOPES[record.topic], record.value))
        if found is not None:
            name, generation = found
            times.setdefault(generation, {}).setdefault(name, record.append_ms)
    return {
        generation: Marks(**named)
        for generation, named in times.items()
        if len(named) == len(Marks.__struct_fields__)
    }
