"""The lives of requests as the accounts machine meets them: admitted, consumed, settled.

Owns the shape of the load. Ids are as long as real ones; nothing is random, so that two runs fold the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from processors.machine import Event, Machine
from schemas.generated.types import (
    AccountsInbox,
    Api,
    Consume,
    Lane,
    OnDisconnect,
    OnWorkerLoss,
    Settle,
    Spec,
    Submit,
    Terminal,
    Tier,
    Usage,
)
from topics.ids import output_id

Body = Submit | Consume | Settle
STEPS: Final = 3
"""Events in the life of one request."""


def users(count: int) -> list[str]:
    return [f"usr_{_ulid(f'user/{number}')}" for number in range(count)]


def rounds(names: list[str], first: int, count: int) -> Iterator[tuple[str, AccountsInbox]]:
    """`count` whole lives for each user, step by step over all users: (key, event)."""
    for number in range(first, first + count):
        for step in range(STEPS):
            for user in names:
                body = _life(user, number)[step]
                cause = f"{user}/{number}/{step}"
                yield user, AccountsInbox(event_id=output_id(cause, "bench", 0), body=body)


def retained(
    machine: Machine[msgspec.Struct], names: list[str], count: int, now_ms: int
) -> dict[str, msgspec.Struct]:
    """Every user's account after `count` lives, folded here, a minute ago."""
    states: dict[str, msgspec.Struct] = {}
    for key, told in rounds(names, 0, count):
        event = Event(event_id=told.event_id, key=key, append_ms=now_ms - 60_000, body=told.body)
        after, _ = machine.fold(states.get(key), event)
        assert after is not None, "an account with identities stays"
        states[key] = after
    return states


def _life(user: str, number: int) -> tuple[Submit, Consume, Settle]:
    name = f"{user}/{number}"
    generation_id = f"gen_{_ulid(name)}"
    spec = Spec(
        generation_id=generation_id,
        runs_key=f"run_{_ulid(f'{name}/run')}",
        api=Api.GENERATIONS,
        tier=Tier.PAID,
        lane=Lane.PAID,
        model="scripted",
        model_version="scripted@1",
        pool="scripted",
        input_tokens=200,
        output_tokens_max=1_000,
        queue_wait_ms_max=15_000,
        run_ms_max=600_000,
        on_disconnect=OnDisconnect.CANCEL,
        on_worker_loss=OnWorkerLoss.FAIL,
    )
    submit = Submit(
        request_id=f"req_{_ulid(f'{name}/request')}",
        identity=blake2b(name.encode(), digest_size=16).digest(),
        fingerprint=blake2b(f"{name}/body".encode(), digest_size=16).digest(),
        reply_partition=0,
        plan_version="local",
        spec=spec,
    )
    usage = Usage(input_tokens=200, cached_input_tokens=0, output_tokens=300)
    settle = Settle(generation_id=generation_id, epoch=1, terminal=Terminal.COMPLETED, usage=usage)
    return submit, Consume(generation_id=generation_id, epoch=1), settle


def _ulid(name: str) -> str:
    """26 letters and digits, always the same for a name."""
    return blake2b(name.encode(), digest_size=13).hexdigest().upper()
