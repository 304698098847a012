"""How a run starts, or why it does not. Pure; picks the lane, never a worker."""

from typing import Final

from processors.machine import Event, Outputs
from processors.outputs import mark, reply, to_accounts
from processors.runs import tell
from processors.runs.ending import Change
from processors.runs.state import Run, Runs
from schemas.generated.types import (
    Api,
    Code,
    OnWorkerLoss,
    Refused,
    Release,
    ReleaseReason,
    RunKind,
    Start,
)
from topics.errors import NotSupported
from topics.registry import LANE_TOPICS
from topics.topic import SECOND_MS

START_LATE_MS: Final = 5 * SECOND_MS
"""Nobody waits any more for a request whose start comes later than this after its `Submit`."""


def start(runs: Runs, event: Event, body: Start) -> Change:
    """Dispatches the first epoch, or refuses what nobody waits for; a repeat hears `Queued` again.

    Raises:
        NotSupported: a conversation, or a run that a lost worker must not end.
    """
    spec = body.spec
    if spec.api is Api.CONVERSATIONS or spec.on_worker_loss is OnWorkerLoss.RESUME:
        raise NotSupported("runs without takeover serve stateless generations only")
    known = runs.active.get(spec.generation_id) or runs.past(spec.generation_id)
    if known is not None:
        same = known.request == mark(body.request_id)
        return runs, (tell.queued(body, known.admitted_at_ms),) if same else ()
    if event.append_ms - body.submitted_at_ms > START_LATE_MS:
        late = ReleaseReason.LATE_START
        return runs, refused(event, body, late, Code.QUOTA_SERVICE_UNAVAILABLE)
    lane = LANE_TOPICS.get((spec.pool, spec.lane))
    if lane is None or runs.full:
        return runs, refused(event, body, ReleaseReason.CAPACITY, Code.CAPACITY_EXHAUSTED)
    run = Run(mark(body.request_id), body.user_id, spec, event.append_ms, number=1)
    return runs.with_run(run), (
        tell.step(event, run, lane, body.route_hint),
        tell.open_stream(event, run, run.number),
        tell.queued(body, run.admitted_at_ms),
        tell.fact(event, spec.generation_id, run.origin, RunKind.QUEUED, run.epoch),
    )


def refused(event: Event, body: Start, reason: ReleaseReason, code: Code) -> Outputs:
    """The start is refused before it began: the hold goes back, the edge hears why."""
    run = Run(mark(body.request_id), body.user_id, body.spec, event.append_ms)
    generation_id = body.spec.generation_id
    return (
        to_accounts(body.user_id, Release(generation_id=generation_id, reason=reason)),
        reply(body.reply_partition, body.request_id, Refused(code=code, retryable=True)),
        tell.fact(event, generation_id, run.origin, RunKind.REFUSED, run.epoch, code=code),
    )
