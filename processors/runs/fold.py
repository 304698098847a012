"""The runs fold: which stop and which end counts. The order of its inbox decides everything.

Pure. A run ends once; everything about a generation that is not known is void but for `Start`, and what
somebody waits for is answered.
"""

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from processors.machine import Event, Outputs
from processors.outputs import mark, reply, to_metering
from processors.runs import tell
from processors.runs.claims import claim, probe
from processors.runs.ending import (
    Change,
    by_user,
    end_granted,
    end_past_queue_deadline,
    end_queued,
    release_reason,
)
from processors.runs.starting import start
from processors.runs.state import CLOSE_WAIT_MS_MAX, HEARD_MAX, Run, Runs
from schemas.generated.types import (
    Claim,
    Closed,
    Due,
    Finished,
    FinishReason,
    LeaseExpired,
    Phase,
    Probe,
    Query,
    RunKind,
    Start,
    Stop,
    StopOrder,
    StopReason,
    Usage,
)
from topics.errors import NotSupported


def finished(runs: Runs, event: Event, body: Finished) -> Change:
    """The owner's word ends the run; anybody else's only counts its tokens, once."""
    told = mark(str(body.epoch), body.incarnation)
    run, past = runs.active.get(body.generation_id), runs.past(body.generation_id)
    if run is not None and (run.owner, run.epoch) == (body.incarnation, body.epoch):
        return end_granted(runs, event, run, body.reason, body.usage, keep_row=True, heard=(told,))
    found = run or past
    if found is None or told in found.heard or len(found.heard) >= HEARD_MAX:
        return runs, ()
    used = tell.used(
        event,
        body.generation_id,
        found.origin,
        epoch=body.epoch,
        incarnation=body.incarnation,
        reason=body.reason,
        usage=body.usage,
        granted_at_ms=found.granted_at_ms if body.epoch == found.epoch else 0,
        void=True,
    )
    heard = (*found.heard, told)
    if run is not None:
        return runs.with_run(replace(run, heard=heard)), (to_metering(used),)
    assert past is not None
    return runs.with_past(body.generation_id, replace(past, heard=heard)), (to_metering(used),)


def lease_expired(runs: Runs, event: Event, body: LeaseExpired) -> Change:
    """The owner is gone: the run ends, with the tokens its heartbeats last told."""
    run = runs.active.get(body.generation_id)
    if run is None or (run.owner, run.epoch) != (body.incarnation, body.epoch):
        return runs, ()
    lost = tell.fact(
        event,
        body.generation_id,
        run.origin,
        RunKind.LEASE_LOST,
        run.epoch,
        incarnation=body.incarnation,
    )
    usage = _estimated(run, body.output_tokens)
    after, outputs = end_granted(runs, event, run, FinishReason.BACKEND_DEAD, usage)
    return after, (lost, *outputs)


def stop(runs: Runs, event: Event, body: Stop) -> Change:
    """Ends what is queued, tells what runs to stop; the first stop's reason stays."""
    run = runs.active.get(body.generation_id)
    after: Runs = runs
    outputs: Outputs = ()
    if run is not None and run.user_id == body.user_id:
        if run.phase is Phase.QUEUED:
            why = release_reason(run, body.reason)
            after, outputs = end_queued(runs, event, run, why, (by_user(run), None))
        elif run.phase is Phase.RUNNING:
            after, outputs = _stopping(runs, event, run, body.reason)
    if body.request_id is None or body.reply_partition is None:
        return after, outputs
    status = tell.status(after, body.generation_id, body.user_id)
    return after, (*outputs, reply(body.reply_partition, body.request_id, status))


def _stopping(runs: Runs, event: Event, run: Run, reason: StopReason) -> Change:
    generation_id, owner = run.spec.generation_id, run.owner or ""
    stopping = replace(
        run,
        phase=Phase.STOPPING,
        stop=reason,
        stop_at_ms=event.append_ms,
        number=run.number + 2,
    )
    kind = RunKind.STOP_REQUESTED
    order = StopOrder(reason=reason)
    return runs.with_run(stopping), (
        tell.to_closer(generation_id, run.epoch, run.number + 1, order),
        tell.stop_order(run, owner, run.number + 2, reason),
        tell.fact(event, generation_id, run.origin, kind, run.epoch, incarnation=owner),
    )


def closed(runs: Runs, event: Event, body: Closed) -> Change:
    """The terminal stands; only the closing epoch's own word counts, once."""
    past = runs.ended.get(body.generation_id)
    if past is None or body.epoch != past.epoch + 1:
        return runs, ()
    fact = tell.fact(
        event,
        body.generation_id,
        past.origin,
        RunKind.CLOSED,
        past.epoch,
        terminal=past.terminal,
        code=past.code,
    )
    return runs.with_closed(body.generation_id), (fact,)


def query(runs: Runs, body: Query) -> Outputs:
    """What the asker may know of a generation.

    Raises:
        NotSupported: no generation is named; limits are known to accounts.
    """
    if body.generation_id is None:
        raise NotSupported("runs knows generations; accounts knows limits")
    status = tell.status(runs, body.generation_id, body.user_id)
    return (reply(body.reply_partition, body.request_id, status),)


def due(runs: Runs, event: Event, _: Due) -> Change:
    """Whatever is over at the record's append time is over now; an early `Due` does nothing."""
    outputs: Outputs = ()
    after = runs
    for run in runs.active.values():
        if event.append_ms >= run.deadline_ms:
            after, told = _past_deadline(after, event, run)
            outputs += told
    for generation_id, past in runs.ended.items():
        if event.append_ms >= past.close_by_ms:
            wait_ms = min(2 * past.close_wait_ms, CLOSE_WAIT_MS_MAX)
            again = replace(
                past,
                number=past.number + 1,
                close_by_ms=event.append_ms + wait_ms,
                close_wait_ms=wait_ms,
            )
            after = after.with_past(generation_id, again)
            outputs += (tell.ended(event, generation_id, again, again.number),)
    return after.expired(event.append_ms), outputs


def _past_deadline(runs: Runs, event: Event, run: Run) -> Change:
    if run.phase is Phase.QUEUED:
        return end_past_queue_deadline(runs, event, run)
    if run.phase is Phase.RUNNING:
        return _stopping(runs, event, run, StopReason.DEADLINE)
    # The worker did not confirm in time; the closing epoch fences it, so it can end no more.
    return end_granted(runs, event, run, FinishReason.STOPPED, _estimated(run, 0))


def _estimated(run: Run, output_tokens: int) -> Usage:
    return Usage(
        input_tokens=run.spec.input_tokens,
        cached_input_tokens=0,
        output_tokens=output_tokens,
        estimated=True,
    )


FOLDS: Final[dict[type, Callable[[Runs, Event, Any], Change]]] = {
    Start: start,
    Claim: claim,
    Finished: finished,
    LeaseExpired: lease_expired,
    Stop: stop,
    Probe: probe,
    Closed: closed,
    Due: due,
}


def fold(state: Runs | None, event: Event) -> tuple[Runs | None, Outputs]:
    """One event of a key's runs. An event that changes nothing makes no state."""
    runs = Runs() if state is None else state
    if isinstance(event.body, Query):
        return state, query(runs, event.body)
    found = FOLDS.get(type(event.body))
    if found is None:
        raise NotSupported(type(event.body).__name__)
    after, outputs = found(runs, event, event.body)
    return after.or_none(), outputs
