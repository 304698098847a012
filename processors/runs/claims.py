"""Who may compute: the answers to `Claim` and `Probe`. Pure; the only maker of grants.

Compute starts at `Granted`, never before, and one epoch is granted to one incarnation.
"""

from msgspec.structs import replace

from processors.machine import Event, Output, Outputs
from processors.outputs import to_accounts, to_workers
from processors.runs import tell
from processors.runs.ending import Change, end_past_queue_deadline
from processors.runs.state import PastRun, Run, Runs
from schemas.generated.types import (
    Claim,
    ClaimRefusal,
    ClaimRefused,
    Consume,
    Current,
    Fenced,
    Granted,
    Owned,
    Phase,
    Probe,
    RunKind,
    Terminal,
)


def claim(runs: Runs, event: Event, body: Claim) -> Change:
    """Grants the current epoch to the first claim in time; all others are refused, each with why."""
    run = runs.active.get(body.generation_id)
    if run is None:
        return _refuse_claim(runs, body, runs.past(body.generation_id))
    if body.epoch == run.epoch and run.phase is Phase.QUEUED:
        if event.append_ms >= run.queue_deadline_ms:
            # It ends here and not at its `Due`: how late a `Due` comes must decide nothing, and
            # the caller hears sooner. The `Due` then finds nothing to do.
            return _refuse_late_claim(runs, event, body, run)
        return _grant(runs, event, run, body.incarnation)
    if body.epoch == run.epoch and run.owner == body.incarnation:
        return _granted_again(runs, run, body.incarnation)
    number = run.number + 1
    return runs.with_run(replace(run, number=number)), (
        _claim_refused(body, number, ClaimRefusal.NOT_CURRENT),
    )


def _grant(runs: Runs, event: Event, run: Run, incarnation: str) -> Change:
    generation_id = run.spec.generation_id
    granted = replace(
        run,
        phase=Phase.RUNNING,
        owner=incarnation,
        granted_at_ms=event.append_ms,
        number=run.number + 1,
    )
    owned = Owned(generation_id=generation_id, epoch=run.epoch, runs_key=event.key)
    return runs.with_run(granted), (
        _granted(granted, incarnation),
        to_accounts(run.user_id, Consume(generation_id=generation_id, epoch=run.epoch)),
        to_workers(incarnation, owned),
        tell.fact(
            event,
            generation_id,
            run.origin,
            RunKind.GRANTED,
            run.epoch,
            incarnation=incarnation,
            queue_ms=event.append_ms - run.admitted_at_ms,
        ),
    )


def _granted_again(runs: Runs, run: Run, incarnation: str) -> Change:
    """The owner asks again: the same answer, and after it the stop that came since, if one did."""
    again = replace(run, number=run.number + 1)
    outputs: Outputs = (_granted(again, incarnation),)
    if run.stop is not None:
        again = replace(again, number=again.number + 1)
        outputs += (tell.stop_order(again, incarnation, again.number, run.stop),)
    return runs.with_run(again), outputs


def _granted(run: Run, incarnation: str) -> Output:
    body = Granted(admitted_at_ms=run.admitted_at_ms, run_deadline_at_ms=run.run_deadline_ms)
    return tell.to_worker(incarnation, run.spec.generation_id, run.epoch, run.number, body)


def _refuse_late_claim(runs: Runs, event: Event, body: Claim, run: Run) -> Change:
    counted = replace(run, number=run.number + 1)
    told = _claim_refused(body, counted.number, ClaimRefusal.PAST_DEADLINE)
    after, outputs = end_past_queue_deadline(runs, event, counted)
    return after, (told, *outputs)


def _refuse_claim(runs: Runs, body: Claim, past: PastRun | None) -> Change:
    """The run is not in flight. The reason says how it ended, so that a repeat hears the same."""
    if past is None:
        return runs, (_claim_refused(body, 0, ClaimRefusal.UNKNOWN_RUN),)
    reason = ClaimRefusal.ENDED
    if past.terminal in {Terminal.CANCELLED, Terminal.STOPPED}:
        reason = ClaimRefusal.STOPPED
    elif not past.granted:
        reason = ClaimRefusal.PAST_DEADLINE
    number = past.number + 1
    counted = runs.with_past(body.generation_id, replace(past, number=number))
    return counted, (_claim_refused(body, number, reason),)


def _claim_refused(body: Claim, number: int, reason: ClaimRefusal) -> Output:
    refusal = ClaimRefused(reason=reason)
    return tell.to_worker(body.incarnation, body.generation_id, body.epoch, number, refusal)


def probe(runs: Runs, event: Event, body: Probe) -> Change:
    """The owner of the current epoch goes on, and its stream is opened again; others are fenced."""
    generation_id, incarnation = body.generation_id, body.incarnation
    run, past = runs.active.get(generation_id), runs.past(generation_id)
    if run is not None and (run.owner, run.epoch) == (incarnation, body.epoch):
        after = replace(run, number=run.number + 2)
        current = Current(stop=run.stop)
        return runs.with_run(after), (
            tell.to_worker(incarnation, generation_id, run.epoch, run.number + 1, current),
            tell.open_stream(event, run, after.number),
        )
    after_runs, number, epoch = runs, 0, body.epoch
    if run is not None:
        number, epoch = run.number + 1, run.epoch
        after_runs = runs.with_run(replace(run, number=number))
    elif past is not None:
        number, epoch = past.number + 1, past.epoch + 1
        after_runs = runs.with_past(generation_id, replace(past, number=number))
    fenced = Fenced(epoch=epoch)
    return after_runs, (tell.to_worker(incarnation, generation_id, body.epoch, number, fenced),)
