"""Outputs in the words of the machines: who is told, under which key. Owns no decision.

Every value leaves without an identity; the shell derives it (rule F5).
"""

from hashlib import blake2b
from typing import Final

from processors.machine import UNSTAMPED, Output
from schemas.generated.types import (
    AccountsInbox,
    Consume,
    EdgeReply,
    Freed,
    LeaseExpired,
    Limits,
    MeteringInbox,
    Owned,
    Queued,
    Refused,
    Release,
    Repeated,
    RunsInbox,
    Settle,
    Start,
    Status,
    Used,
    WorkersInbox,
)
from topics.registry import (
    ACCOUNTS_INBOX,
    EDGE_REPLIES,
    METERING_INBOX,
    RUNS_INBOX,
    WORKERS_INBOX,
)

MARK_BYTES: Final = 8


def mark(*parts: str) -> bytes:
    """A short stand-in for strings that a state only ever compares, never shows."""
    return blake2b("\0".join(parts).encode(), digest_size=MARK_BYTES).digest()


def reply(
    partition: int, request_id: str, body: Refused | Queued | Repeated | Status | Limits
) -> Output:
    """An answer to one waiting request; the partition is its edge's, the key decides nothing."""
    value = EdgeReply(event_id=UNSTAMPED, request_id=request_id, body=body)
    return Output(topic=EDGE_REPLIES, key=request_id, value=value, partition=partition)


def to_accounts(user_id: str, body: Consume | Release | Settle) -> Output:
    value = AccountsInbox(event_id=UNSTAMPED, body=body)
    return Output(topic=ACCOUNTS_INBOX, key=user_id, value=value)


def to_runs(runs_key: str, body: Start | LeaseExpired) -> Output:
    value = RunsInbox(event_id=UNSTAMPED, body=body)
    return Output(topic=RUNS_INBOX, key=runs_key, value=value)


def to_workers(incarnation: str, body: Owned | Freed) -> Output:
    value = WorkersInbox(event_id=UNSTAMPED, body=body)
    return Output(topic=WORKERS_INBOX, key=incarnation, value=value)


def to_metering(body: Used) -> Output:
    value = MeteringInbox(event_id=UNSTAMPED, body=body)
    return Output(topic=METERING_INBOX, key=body.generation_id, value=value)
