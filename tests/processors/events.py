"""Events for the machines' tests, each with the fewest words that tell it from another."""

from hashlib import blake2b
from typing import Final

from schemas.generated.types import (
    Api,
    Consume,
    Due,
    Lane,
    OnDisconnect,
    OnWorkerLoss,
    Query,
    Release,
    ReleaseReason,
    Settle,
    Spec,
    Submit,
    Terminal,
    Tier,
    Usage,
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


def query(tier: Tier = Tier.FREE, generation: str | None = None, user: str = "usr_1") -> Query:
    return Query(
        request_id="q", reply_partition=REPLIES, tier=tier, user_id=user, generation_id=generation
    )


def due(live_s: int = 60) -> Due:
    return Due(deadline_at_ms=0, live_s=live_s)
