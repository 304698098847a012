"""The runs machine, keyed by conversation or request identity."""

from processors.machine import Event, Machine, Outputs
from processors.runs.fold import fold
from processors.runs.starting import refused
from processors.runs.state import Runs
from schemas.generated.types import Code, ReleaseReason, RunsInbox, Start
from topics.registry import RUNS_INBOX


def over_cap(event: Event) -> Outputs:
    """A key at its size limit starts nothing new: the hold goes back, the edge hears why."""
    if not isinstance(event.body, Start):
        return ()
    return refused(event, event.body, ReleaseReason.CAPACITY, Code.CAPACITY_EXHAUSTED)


def runs_machine() -> Machine[Runs]:
    return Machine(
        name="runs",
        inbox=RUNS_INBOX,
        envelope=RunsInbox,
        state=Runs,
        fold=fold,
        next_deadline=Runs.next_deadline_ms,
        over_cap=over_cap,
    )
