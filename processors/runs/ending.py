"""How a run ends: which terminal, what the hold becomes, who is told. Pure; the only maker of ends.

One run ends once, because only a run in flight can end and it leaves that map here.
"""

from typing import Final

from processors.machine import Event, Outputs
from processors.outputs import to_accounts, to_metering, to_workers
from processors.runs import tell
from processors.runs.state import CLOSE_WAIT_MS_FIRST, PastRun, Run, Runs, tokens_of
from schemas.generated.types import (
    Api,
    Code,
    FinishReason,
    Freed,
    Release,
    ReleaseReason,
    RunKind,
    Settle,
    StopReason,
    Terminal,
    Usage,
)

Change = tuple[Runs, Outputs]
Outcome = tuple[Terminal, Code | None]

NO_TOKENS: Final = Usage(input_tokens=0, cached_input_tokens=0, output_tokens=0)


def outcome(run: Run, reason: FinishReason, now_ms: int) -> Outcome:
    """How a granted run ends. A stop that came first decides, whatever the worker made of it."""
    if run.stop is StopReason.DEADLINE:
        return Terminal.FAILED, Code.GENERATION_TIMEOUT
    if run.stop is not None:
        return by_user(run), None
    match reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            return Terminal.COMPLETED, None
        case FinishReason.STOPPED if now_ms >= run.run_deadline_ms:
            # The worker knew the deadline and was faster than its `Due`.
            return Terminal.FAILED, Code.GENERATION_TIMEOUT
        case FinishReason.STOPPED:
            # The worker applied the policy for an answer that nobody reads.
            return by_user(run), None
        case FinishReason.TOO_LONG:
            return Terminal.FAILED, Code.INVALID_REQUEST
    return Terminal.FAILED, Code.MODEL_BACKEND_ERROR


def by_user(run: Run) -> Terminal:
    """The word of the API for an end that was asked for."""
    return Terminal.STOPPED if run.spec.api is Api.CONVERSATIONS else Terminal.CANCELLED


def release_reason(run: Run, stop: StopReason) -> ReleaseReason:
    """Why a queued run's hold goes back. Only a user's own stop keeps the key bound to it."""
    if stop not in {StopReason.USER, StopReason.DELETED}:
        return ReleaseReason.ABANDONED
    conversation = run.spec.api is Api.CONVERSATIONS
    return ReleaseReason.STOPPED if conversation else ReleaseReason.CANCELLED


def end_queued(runs: Runs, event: Event, run: Run, reason: ReleaseReason, how: Outcome) -> Change:
    """Ends a run that was never granted: nothing was computed, the hold goes back."""
    effects = (to_accounts(run.user_id, Release(generation_id=_id(run), reason=reason)),)
    return _end(runs, event, run, how, None, NO_TOKENS, effects)


def end_past_queue_deadline(runs: Runs, event: Event, run: Run) -> Change:
    """No worker claimed it in time."""
    how = Terminal.FAILED, Code.CAPACITY_EXHAUSTED
    return end_queued(runs, event, run, ReleaseReason.QUEUE_DEADLINE, how)


def end_granted(
    runs: Runs,
    event: Event,
    run: Run,
    reason: FinishReason,
    usage: Usage,
    *,
    keep_row: bool = False,
    heard: tuple[bytes, ...] = (),
) -> Change:
    """Ends a granted run: its tokens are settled and metered, its lease is over."""
    how = outcome(run, reason, event.append_ms)
    owner = run.owner or ""
    settled = Settle(generation_id=_id(run), epoch=run.epoch, terminal=how[0], usage=usage)
    used = tell.used(
        event,
        _id(run),
        run.origin,
        epoch=run.epoch,
        incarnation=owner,
        reason=reason,
        usage=usage,
        granted_at_ms=run.granted_at_ms,
    )
    effects = (
        to_accounts(run.user_id, settled),
        to_metering(used),
        to_workers(owner, Freed(generation_id=_id(run), epoch=run.epoch)),
    )
    return _end(runs, event, run, how, reason, usage, effects, keep_row=keep_row, heard=heard)


def _end(
    runs: Runs,
    event: Event,
    run: Run,
    how: Outcome,
    reason: FinishReason | None,
    usage: Usage,
    effects: Outputs,
    *,
    keep_row: bool = False,
    heard: tuple[bytes, ...] = (),
) -> Change:
    terminal, code = how
    past = PastRun(
        request=run.request,
        origin=run.origin,
        admitted_at_ms=run.admitted_at_ms,
        granted_at_ms=run.granted_at_ms,
        ended_at_ms=event.append_ms,
        epoch=run.epoch,
        number=run.number + 1,
        terminal=terminal,
        code=code,
        finish_reason=reason,
        tokens=tokens_of(usage),
        keep_row=keep_row,
        heard=(*run.heard, *heard),
        close_by_ms=event.append_ms + CLOSE_WAIT_MS_FIRST,
        close_wait_ms=CLOSE_WAIT_MS_FIRST,
    )
    fact = tell.fact(
        event,
        _id(run),
        past.origin,
        RunKind.ENDED,
        past.epoch,
        incarnation=run.owner,
        terminal=terminal,
        code=code,
        finish_reason=reason,
        run_ms=event.append_ms - run.granted_at_ms if run.owner else None,
    )
    said = tell.ended(event, _id(run), past, past.number)
    return runs.with_ended(_id(run), past), (*effects, said, fact)


def _id(run: Run) -> str:
    return run.spec.generation_id
