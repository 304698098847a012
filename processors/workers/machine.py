"""The workers machine, keyed by incarnation."""

from processors.machine import Event, Machine, Outputs
from processors.workers.fold import fold
from processors.workers.state import Worker
from schemas.generated.types import WorkersInbox
from topics.registry import WORKERS_INBOX


def over_cap(_: Event) -> Outputs:
    """There is nobody to tell."""
    return ()


def next_deadline_ms(worker: Worker) -> int:
    return worker.check_at_ms


def workers_machine() -> Machine[Worker]:
    return Machine(
        name="workers",
        inbox=WORKERS_INBOX,
        envelope=WorkersInbox,
        state=Worker,
        fold=fold,
        next_deadline=next_deadline_ms,
        over_cap=over_cap,
        judges_silence=True,
    )
