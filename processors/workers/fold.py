"""The workers fold: heartbeats keep leases, silence ends them. Pure.

What an incarnation owns is told by runs alone; its heartbeats only carry the counts. A silent one is
dead for good: its epochs went to nobody else but ended, and what is granted to it later ends at once. A
process that lives on takes a new incarnation.
"""

from msgspec.structs import replace

from processors.machine import UNSTAMPED, Event, Output, Outputs
from processors.outputs import to_runs
from processors.workers.state import (
    LEASE_MS,
    LIVE_S_MIN,
    RETAINED_MS,
    Lease,
    Life,
    Worker,
)
from schemas.generated.types import (
    Due,
    Freed,
    Heartbeat,
    LeaseExpired,
    Left,
    Owned,
    OwnedEpoch,
    WorkerFact,
    WorkerKind,
)
from topics.errors import NotSupported
from topics.registry import FACTS_WORKERS
from topics.topic import SECOND_MS

Change = tuple[Worker | None, Outputs]


def fold(state: Worker | None, event: Event) -> Change:
    """One event of an incarnation; the key is its name."""
    match event.body:
        case Heartbeat():
            return _heartbeat(state, event, event.body)
        case Owned():
            return _owned(state, event, event.body)
        case Freed():
            return _freed(state, event.body), ()
        case Left():
            return _left(state, event, event.body)
        case Due():
            return _due(state, event, event.body)
        case _:
            raise NotSupported(type(event.body).__name__)


def _heartbeat(worker: Worker | None, event: Event, body: Heartbeat) -> Change:
    if worker is not None and (worker.over or body.beat < worker.beat):
        return worker, ()
    counts = {owned.generation_id: owned for owned in body.owned}
    leases = worker.owned if worker is not None else {}
    alive = Worker(
        life=Life.LIVE,
        pool=body.pool,
        beat=body.beat,
        check_at_ms=event.append_ms + LEASE_MS,
        owned={
            generation_id: _counted(lease, counts.get(generation_id))
            for generation_id, lease in leases.items()
        },
    )
    if worker is not None and worker.life is Life.LIVE:
        return alive, ()
    return alive, (_fact(event, alive, WorkerKind.JOINED, 0),)


def _counted(lease: Lease, told: OwnedEpoch | None) -> Lease:
    if told is None or told.epoch != lease.epoch:
        return lease
    return Lease(lease.epoch, lease.runs_key, max(lease.output_tokens, told.output_tokens))


def _owned(worker: Worker | None, event: Event, body: Owned) -> Change:
    """A grant. An incarnation nobody heard of has a lease's length to be heard."""
    lease = Lease(body.epoch, body.runs_key)
    if worker is None:
        check_at_ms = event.append_ms + LEASE_MS
        first = {body.generation_id: lease}
        return Worker(Life.UNHEARD, "", 0, check_at_ms, first), ()
    if worker.over:
        kept = replace(worker, check_at_ms=event.append_ms + RETAINED_MS)
        return kept, (_expired(event, body.generation_id, lease),)
    held = worker.owned.get(body.generation_id)
    if held is not None and held.epoch >= body.epoch:
        return worker, ()
    return replace(worker, owned={**worker.owned, body.generation_id: lease}), ()


def _freed(worker: Worker | None, body: Freed) -> Worker | None:
    held = worker.owned.get(body.generation_id) if worker is not None else None
    if worker is None or held is None or held.epoch > body.epoch:
        return worker
    owned = {**worker.owned}
    del owned[body.generation_id]
    return replace(worker, owned=owned)


def _left(worker: Worker | None, event: Event, body: Left) -> Change:
    """A drained worker goes; what it owned all the same is lost like a dead one's."""
    if worker is None or worker.over:
        return worker, ()
    beat = max(worker.beat, body.beat)
    return _ends(replace(worker, beat=beat), event, Life.LEFT, WorkerKind.LEFT)


def _due(worker: Worker | None, event: Event, body: Due) -> Change:
    if worker is None or event.append_ms < worker.check_at_ms:
        return worker, ()
    if worker.over:
        return None, ()
    if body.live_s < LIVE_S_MIN:
        # The log was away: nobody's silence counts until it has been back for a lease's length.
        missing_ms = (LIVE_S_MIN - body.live_s) * SECOND_MS
        return replace(worker, check_at_ms=event.append_ms + missing_ms), ()
    return _ends(worker, event, Life.DEAD, WorkerKind.LEASE_EXPIRED)


def _ends(worker: Worker, event: Event, life: Life, kind: WorkerKind) -> Change:
    over = replace(worker, life=life, check_at_ms=event.append_ms + RETAINED_MS, owned={})
    lost = tuple(_expired(event, *one) for one in worker.owned.items())
    return over, (*lost, _fact(event, worker, kind, len(lost)))


def _expired(event: Event, generation_id: str, lease: Lease) -> Output:
    body = LeaseExpired(
        generation_id=generation_id,
        epoch=lease.epoch,
        incarnation=event.key,
        output_tokens=lease.output_tokens,
    )
    return to_runs(lease.runs_key, body)


def _fact(event: Event, worker: Worker, kind: WorkerKind, lost: int) -> Output:
    value = WorkerFact(
        event_id=UNSTAMPED,
        kind=kind,
        at=event.append_ms,
        incarnation=event.key,
        pool=worker.pool,
        epochs_lost=lost,
    )
    return Output(topic=FACTS_WORKERS, key=event.key, value=value)
