"""The lives of many keys, as each machine meets them: enough events that a key has a state and waits for
nothing. Pure; nothing is random, so that ids can be counted on.

Every event is one that its machine accepts; what it says is never served to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from schemas.generated import types as t
from topics.ids import output_id
from topics.models import POOLS

POOL: Final = POOLS[-1]
TOKENS: Final = t.Usage(input_tokens=20, cached_input_tokens=0, output_tokens=30)
Life = Callable[[str, int], tuple[msgspec.Struct, ...]]
"""Of one key: its name and the present time to its events, in order."""


def ulid(name: str) -> str:
    """26 characters, always the same for a name."""
    return blake2b(name.encode(), digest_size=13).hexdigest().upper()


def generation_of(key: str) -> str:
    return f"gen_{ulid(key)}"


def account(key: str, now_ms: int) -> tuple[msgspec.Struct, ...]:
    """A request that was admitted, granted and settled."""
    submit = t.Submit(
        request_id=f"req_{ulid(key)}",
        identity=blake2b(key.encode(), digest_size=16).digest(),
        fingerprint=blake2b(f"{key}/body".encode(), digest_size=16).digest(),
        reply_partition=0,
        plan_version="local",
        spec=_spec(key),
    )
    settle = t.Settle(
        generation_id=generation_of(key), epoch=1, terminal=t.Terminal.COMPLETED, usage=TOKENS
    )
    return submit, t.Consume(generation_id=generation_of(key), epoch=1), settle


def run(key: str, now_ms: int) -> tuple[msgspec.Struct, ...]:
    """A run that was started, granted, finished and closed."""
    name, worker = generation_of(key), "drill-worker"
    start = t.Start(
        request_id=f"req_{ulid(key)}",
        user_id=f"usr_{ulid(key)}",
        reply_partition=0,
        submitted_at_ms=now_ms,
        limits=(),
        spec=_spec(key),
    )
    finished = t.Finished(
        generation_id=name,
        epoch=1,
        incarnation=worker,
        reason=t.FinishReason.STOP,
        usage=TOKENS,
        code_points=100,
        started_at_ms=now_ms,
    )
    closed = t.Closed(generation_id=name, epoch=2, partial=False, code_points=100)
    return start, t.Claim(generation_id=name, epoch=1, incarnation=worker), finished, closed


def worker(key: str, now_ms: int) -> tuple[msgspec.Struct, ...]:
    """A worker that came and went."""
    return t.Heartbeat(pool=POOL, beat=1, owned=(), slots=4), t.Left(beat=2)


def meter(key: str, now_ms: int) -> tuple[msgspec.Struct, ...]:
    """One epoch's tokens."""
    used = t.Used(
        generation_id=key,
        epoch=1,
        user_id=f"usr_{ulid(key)}",
        model=POOL,
        model_version=f"{POOL}@1",
        pool=POOL,
        incarnation="drill-worker",
        void=False,
        usage=TOKENS,
        granted_at_ms=now_ms - 1_000,
        ended_at_ms=now_ms,
    )
    return (used,)


LIVES: Final[dict[str, tuple[str, Life, type[msgspec.Struct]]]] = {
    "accounts": ("usr_", account, t.AccountsInbox),
    "runs": ("run_", run, t.RunsInbox),
    "workers": ("wrk-", worker, t.WorkersInbox),
    "metering": ("gen_", meter, t.MeteringInbox),
}
"""Machine -> prefix of its keys, a key's life, its inbox's envelope."""


def keys(machine: str, mark: str, count: int) -> list[str]:
    """So many keys of a machine, other ones for another mark."""
    prefix = LIVES[machine][0]
    return [f"{prefix}{ulid(f'{mark}/{number}')}" for number in range(count)]


def events(machine: str, key: str, now_ms: int) -> Iterator[msgspec.Struct]:
    """A key's events in their envelopes."""
    _, life, envelope = LIVES[machine]
    for number, body in enumerate(life(key, now_ms)):
        yield envelope(event_id=output_id(f"{machine}/{key}", "drill", number), body=body)


def _spec(key: str) -> t.Spec:
    return t.Spec(
        generation_id=generation_of(key),
        runs_key=f"run_{ulid(key)}",
        api=t.Api.GENERATIONS,
        tier=t.Tier.PAID,
        lane=t.Lane.PAID,
        model="scripted",
        model_version="scripted@1",
        pool=POOL,
        input_tokens=20,
        output_tokens_max=100,
        queue_wait_ms_max=15_000,
        run_ms_max=600_000,
        on_disconnect=t.OnDisconnect.CANCEL,
        on_worker_loss=t.OnWorkerLoss.FAIL,
    )
