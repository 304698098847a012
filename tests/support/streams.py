"""Entries and orders for tests that write streams."""

import json

from connectors.redis.closer import Closing
from connectors.redis.layout import EntryId
from schemas.generated.types import OnDisconnect, Open, StopReason


def delta(offset: int, text: str) -> bytes:
    """Data of a text.delta, as a worker writes it."""
    return json.dumps(
        {"index": 0, "offset": offset, "delta": text}, separators=(",", ":"), ensure_ascii=False
    ).encode()


def order(
    *,
    ttl_ms: int = 600_000,
    stop: StopReason | None = None,
    released_to: int | None = None,
    status: str = "queued",
) -> Open:
    return Open(
        user_id="usr_1",
        runs_key="run_1",
        admitted_at_ms=1_000,
        status=status,
        ttl_ms=ttl_ms,
        on_disconnect=OnDisconnect.CANCEL,
        disconnect_grace_ms=10_000,
        stop=stop,
        released_to=released_to,
    )


def closing(
    last: EntryId | None,
    terminal_sequence: int,
    *,
    epoch: int = 2,
    snapshot: str | None = None,
    event: str = "completed",
) -> Closing:
    return Closing(
        epoch=epoch,
        number=9,
        last=last,
        snapshot_sequence=None if snapshot is None else terminal_sequence - 1,
        snapshot_data=b"" if snapshot is None else json.dumps({"text": snapshot}).encode(),
        terminal_sequence=terminal_sequence,
        event=event,
        data=b'{"usage":{}}',
        status=event,
        user_id="usr_1",
        runs_key="run_1",
        admitted_at_ms=1_000,
    )
