"""What runs tells: orders, replies, facts and effects, each made from a run as it is. Decides nothing.

Every control record of a generation takes the next number, workers' and streams' alike; the caller
counts.
"""

from typing import Final

from processors.machine import UNSTAMPED, Event, Output
from processors.outputs import reply
from processors.runs.state import Origin, PastRun, Run, Runs
from schemas.generated.types import (
    ClaimRefused,
    Code,
    Current,
    Ended,
    Fenced,
    FinishReason,
    Granted,
    Hold,
    Open,
    Phase,
    Queued,
    RunFact,
    RunKind,
    Start,
    Status,
    StepRequest,
    StopOrder,
    StopReason,
    StreamControl,
    Terminal,
    Usage,
    Used,
    WorkerControl,
)
from topics.registry import CONTROL_STREAMS, CONTROL_WORKERS, FACTS_RUNS
from topics.topic import MINUTE_MS, Topic

STREAM_SLACK_MS: Final = 10 * MINUTE_MS
"""A stream outlives the longest run by this much."""
STATUS_WORDS: Final = {
    Phase.QUEUED: "queued",
    Phase.RUNNING: "running",
    Phase.STOPPING: "cancel_requested",
}
STEP_FIRST: Final = 1


def to_worker(
    incarnation: str,
    generation_id: str,
    epoch: int,
    number: int,
    body: Granted | ClaimRefused | StopOrder | Current | Fenced,
) -> Output:
    value = WorkerControl(
        event_id=UNSTAMPED, generation_id=generation_id, epoch=epoch, number=number, body=body
    )
    return Output(topic=CONTROL_WORKERS, key=incarnation, value=value)


def stop_order(run: Run, incarnation: str, number: int, reason: StopReason) -> Output:
    body = StopOrder(reason=reason)
    return to_worker(incarnation, run.spec.generation_id, run.epoch, number, body)


def to_closer(
    generation_id: str, epoch: int, number: int, body: Open | StopOrder | Ended
) -> Output:
    value = StreamControl(
        event_id=UNSTAMPED, generation_id=generation_id, epoch=epoch, number=number, body=body
    )
    return Output(topic=CONTROL_STREAMS, key=generation_id, value=value)


def step(event: Event, run: Run, lane: Topic, partition: int | None) -> Output:
    """The step request of the run's epoch, keyed like its inbox."""
    value = StepRequest(
        event_id=UNSTAMPED,
        user_id=run.user_id,
        epoch=run.epoch,
        step=STEP_FIRST,
        admitted_at_ms=run.admitted_at_ms,
        queue_deadline_at_ms=run.queue_deadline_ms,
        spec=run.spec,
    )
    return Output(topic=lane, key=event.key, value=value, partition=partition)


def open_stream(event: Event, run: Run, number: int) -> Output:
    """The whole control state of the run's stream."""
    spec = run.spec
    body = Open(
        user_id=run.user_id,
        runs_key=event.key,
        admitted_at_ms=run.admitted_at_ms,
        status=STATUS_WORDS[run.phase],
        ttl_ms=spec.queue_wait_ms_max + spec.run_ms_max + STREAM_SLACK_MS,
        on_disconnect=spec.on_disconnect,
        disconnect_grace_ms=spec.disconnect_grace_ms,
        stop=run.stop,
    )
    return to_closer(spec.generation_id, run.epoch, number, body)


def queued(body: Start, admitted_at_ms: int) -> Output:
    """The edge may send its headers. Made from the `Start`, so that a repeat gets the same."""
    spec = body.spec
    told = Queued(
        generation_id=spec.generation_id,
        admitted_at_ms=admitted_at_ms,
        model=spec.model,
        model_version=spec.model_version,
        queue_deadline_at_ms=admitted_at_ms + spec.queue_wait_ms_max,
        limits=body.limits,
        notice=body.notice,
    )
    return reply(body.reply_partition, body.request_id, told)


def ended(event: Event, generation_id: str, past: PastRun, number: int) -> Output:
    """The one end, said until the closer answers."""
    origin = past.origin
    body = Ended(
        terminal=past.terminal,
        finish_reason=past.finish_reason or FinishReason.UNKNOWN,
        code=past.code,
        usage=past.tokens.usage,
        hold=past.hold,
        closing_epoch=past.epoch + 1,
        text_epoch=past.epoch if past.granted else 0,
        keep_row=past.keep_row,
        user_id=origin.user_id,
        runs_key=event.key,
        model=origin.model,
        model_version=origin.model_version,
        admitted_at_ms=past.admitted_at_ms,
        ended_at_ms=past.ended_at_ms,
        conversation_id=origin.conversation_id,
    )
    return to_closer(generation_id, past.epoch, number, body)


def status(runs: Runs, generation_id: str, user_id: str) -> Status:
    """What the asker may know; a foreign generation looks like one that never was."""
    run, past = runs.active.get(generation_id), runs.past(generation_id)
    phase = runs.phase(generation_id)
    if run is not None and run.user_id == user_id:
        return Status(
            generation_id=generation_id,
            known=True,
            phase=phase,
            stop_requested=run.stop is not None,
            hold=Hold.HELD if run.owner is None else Hold.CONSUMED,
            model=run.spec.model,
            epoch=run.epoch,
            created_at_ms=run.admitted_at_ms,
        )
    if past is not None and past.origin.user_id == user_id:
        return Status(
            generation_id=generation_id,
            known=True,
            phase=phase,
            stop_requested=False,
            hold=past.hold,
            terminal=past.terminal,
            code=past.code,
            model=past.origin.model,
            epoch=past.epoch,
            created_at_ms=past.admitted_at_ms,
            usage=past.tokens.usage,
        )
    return Status(
        generation_id=generation_id,
        known=False,
        stop_requested=False,
        model="",
        epoch=0,
        created_at_ms=0,
    )


def used(
    event: Event,
    generation_id: str,
    origin: Origin,
    *,
    epoch: int,
    incarnation: str,
    reason: FinishReason,
    usage: Usage,
    granted_at_ms: int,
    void: bool = False,
) -> Used:
    """The tokens of one epoch for metering; `void` where it had lost its right to decide."""
    return Used(
        generation_id=generation_id,
        epoch=epoch,
        user_id=origin.user_id,
        tier=origin.tier,
        api=origin.api,
        model=origin.model,
        model_version=origin.model_version,
        pool=origin.pool,
        incarnation=incarnation,
        reason=reason,
        void=void,
        usage=usage,
        granted_at_ms=granted_at_ms,
        ended_at_ms=event.append_ms,
    )


def fact(
    event: Event,
    generation_id: str,
    origin: Origin,
    kind: RunKind,
    epoch: int,
    *,
    incarnation: str | None = None,
    terminal: Terminal | None = None,
    code: Code | None = None,
    finish_reason: FinishReason | None = None,
    queue_ms: int | None = None,
    run_ms: int | None = None,
) -> Output:
    value = RunFact(
        event_id=UNSTAMPED,
        kind=kind,
        at=event.append_ms,
        generation_id=generation_id,
        user_id=origin.user_id,
        tier=origin.tier,
        api=origin.api,
        model=origin.model,
        model_version=origin.model_version,
        pool=origin.pool,
        epoch=epoch,
        incarnation=incarnation,
        terminal=terminal,
        code=code,
        finish_reason=finish_reason,
        queue_ms=queue_ms,
        run_ms=run_ms,
    )
    return Output(topic=FACTS_RUNS, key=event.key, value=value)
