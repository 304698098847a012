"""Events for the machines' tests, each with the fewest words that tell it from another."""

from hashlib import blake2b
from typing import Final

from schemas.generated.types import (
    Api,
    Claim,
    Closed,
    Consume,
    Due,
    Finished,
    FinishReason,
    Freed,
    Heartbeat,
    Lane,
    LeaseExpired,
    OnDisconnect,
    OnWorkerLoss,
    Owned,
    OwnedEpoch,
    Probe,
    Query,
    Release,
    ReleaseReason,
    Settle,
    Spec,
    Start,
    Stop,
    StopReason,
    Submit,
    Terminal,
    Tier,
    Usage,
    Used,
)

REPLIES: Final = 3
"""Partition of edge.replies in every test."""


def spec(generation: str, *, api: Api = Api.GENERATIONS, tier: Tier = Tier.FREE) -> Spec:
    return Spec(
        generation_id=generation,
        runs_key="run_1",
        api=api,
        tier=tier,
        lane=Lane.FREE if tier is Tier.FREE else Lane.PAID,
        model="scripted",
        model_version="scripted@1",
        pool="scripted",
        input_tokens=7,
        output_tokens_max=100,
        queue_wait_ms_max=15_000,
        run_ms_max=600_000,
        on_disconnect=OnDisconnect.CANCEL,
        on_worker_loss=OnWorkerLoss.FAIL,
    )


def sixteen(text: str) -> bytes:
    """16 bytes that stand for a keyed hash."""
    return blake2b(text.encode(), digest_size=16).digest()


def submit(
    request: str,
    key: str,
    *,
    content: str = "same",
    tier: Tier = Tier.FREE,
    api: Api = Api.GENERATIONS,
) -> Submit:
    """A request under an idempotency key; its generation is named after it."""
    return Submit(
        request_id=request,
        identity=sixteen(key),
        fingerprint=sixteen(content),
        reply_partition=REPLIES,
        plan_version="test",
        spec=spec(f"g-{request}", api=api, tier=tier),
    )


def consume(request: str) -> Consume:
    return Consume(generation_id=f"g-{request}", epoch=1)


def release(request: str, reason: ReleaseReason = ReleaseReason.QUEUE_DEADLINE) -> Release:
    return Release(generation_id=f"g-{request}", reason=reason)


def settle(request: str, terminal: Terminal = Terminal.COMPLETED) -> Settle:
    return Settle(generation_id=f"g-{request}", epoch=1, terminal=terminal, usage=usage(5))


def usage(output: int, *, estimated: bool = False) -> Usage:
    return Usage(input_tokens=7, cached_input_tokens=0, output_tokens=output, estimated=estimated)


def start(
    request: str,
    submitted_at_ms: int,
    *,
    user: str = "usr_1",
    route_hint: int | None = None,
    of: Spec | None = None,
) -> Start:
    return Start(
        request_id=request,
        user_id=user,
        reply_partition=REPLIES,
        submitted_at_ms=submitted_at_ms,
        route_hint=route_hint,
        limits=(),
        spec=of or spec(f"g-{request}"),
    )


def claim(request: str, who: str = "w1", epoch: int = 1) -> Claim:
    return Claim(generation_id=f"g-{request}", epoch=epoch, incarnation=who)


def finished(
    request: str, reason: FinishReason = FinishReason.STOP, who: str = "w1", epoch: int = 1
) -> Finished:
    return Finished(
        generation_id=f"g-{request}",
        epoch=epoch,
        incarnation=who,
        reason=reason,
        usage=usage(5),
        code_points=20,
        started_at_ms=1,
    )


def lease_expired(request: str, who: str = "w1", epoch: int = 1) -> LeaseExpired:
    return LeaseExpired(generation_id=f"g-{request}", epoch=epoch, incarnation=who, output_tokens=3)


def stop(
    request: str,
    reason: StopReason = StopReason.USER,
    *,
    user: str = "usr_1",
    waits: bool = True,
) -> Stop:
    return Stop(
        generation_id=f"g-{request}",
        user_id=user,
        reason=reason,
        request_id="q" if waits else None,
        reply_partition=REPLIES if waits else None,
    )


def probe(request: str, who: str = "w1", epoch: int = 1) -> Probe:
    return Probe(generation_id=f"g-{request}", epoch=epoch, incarnation=who)


def closed(request: str, epoch: int = 2) -> Closed:
    return Closed(generation_id=f"g-{request}", epoch=epoch, partial=True, code_points=20)


def heartbeat(beat: int, *owned: tuple[str, int, int]) -> Heartbeat:
    """`owned` are (request, epoch, output tokens)."""
    told = tuple(
        OwnedEpoch(generation_id=f"g-{request}", epoch=epoch, output_tokens=count)
        for request, epoch, count in owned
    )
    return Heartbeat(pool="scripted", beat=beat, owned=told, slots=4)


def owned(request: str, epoch: int = 1) -> Owned:
    return Owned(generation_id=f"g-{request}", epoch=epoch, runs_key=f"run_{request}")


def freed(request: str, epoch: int = 1) -> Freed:
    return Freed(generation_id=f"g-{request}", epoch=epoch)


def used(
    epoch: int, who: str = "w1", output: int = 5, *, void: bool = False, granted_at_ms: int = 1
) -> Used:
    return Used(
        generation_id="g-a",
        epoch=epoch,
        user_id="usr_1",
        tier=Tier.FREE,
        api=Api.GENERATIONS,
        model="scripted",
        model_version="scripted@1",
        pool="scripted",
        incarnation=who,
        reason=FinishReason.STOP,
        void=void,
        usage=usage(output, estimated=output == 0),
        granted_at_ms=granted_at_ms,
        ended_at_ms=1_001,
    )


def query(tier: Tier = Tier.FREE, generation: str | None = None, user: str = "usr_1") -> Query:
    return Query(
        request_id="q", reply_partition=REPLIES, tier=tier, user_id=user, generation_id=generation
    )


def due(live_s: int = 60) -> Due:
    return Due(deadline_at_ms=0, live_s=live_s)
