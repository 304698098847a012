"""Applies one order to Redis and the store. Owns the sequence of effects, never the decision.

Every order may be applied again at any point of its way: each step is harmless twice.
"""

import asyncio
from collections.abc import Awaitable, Callable

from connectors.closer import metrics
from connectors.closer.closing import closed, plan
from connectors.errors import RedisAway
from connectors.redis.closer import EndCode, StreamCloser
from connectors.redis.shown import Shown
from connectors.store.rows import RowPhase
from connectors.store.store import Store
from schemas.generated.types import (
    Ended,
    Open,
    ReleaseTo,
    Retracted,
    RunsInbox,
    StopOrder,
    StreamControl,
)
from topics.errors import MilenaError, NotSupported
from topics.ids import output_id

Tell = Callable[[str, RunsInbox], Awaitable[object]]
"""(runs key, event): returns once the log has it, or raises LogUnavailable."""


class StreamMoved(MilenaError):
    """The stream changed between looking and ending; looking again settles it."""


async def apply(streams: StreamCloser, store: Store, tell: Tell, order: StreamControl) -> str:
    """What became of it, in one word.

    Raises:
        RedisAway, StoreUnavailable, LogUnavailable, StreamMoved: try the same order again.
        NotSupported: this version has no such order.
    """
    match order.body:
        case Open():
            code = await streams.open_(order.generation_id, order.epoch, order.number, order.body)
        case StopOrder(reason=reason):
            code = await streams.stop(order.generation_id, order.number, reason)
        case ReleaseTo(released_to=released_to):
            code = await streams.release_to(order.generation_id, order.number, released_to)
        case Ended():
            return await _end(streams, store, tell, order, order.body)
        case Retracted():
            raise NotSupported("retracted")
    return code.value.lower()


async def _end(
    streams: StreamCloser, store: Store, tell: Tell, order: StreamControl, ended: Ended
) -> str:
    """Row first, terminal second, word to runs third."""
    shown, row = await asyncio.gather(
        _fenced(streams, order.generation_id, ended.closing_epoch),
        store.result(order.generation_id),
    )
    end = plan(order.generation_id, order.number, ended, shown, row)
    if end is None:
        raise RedisAway("what was shown is not known")
    if end.row_missing:
        metrics.ROWS_MISSING.inc()
    if end.write:
        await store.put_result(end.row, RowPhase.FINAL)
    if end.closing is None:
        raise RedisAway("the row is kept, the terminal is not appended yet")
    answer = await streams.end(order.generation_id, end.closing)
    if answer.code is EndCode.MOVED:
        raise StreamMoved("the stream changed meanwhile")
    event = RunsInbox(
        event_id=output_id(order.event_id, "Closed", 0), body=closed(end.row, ended.closing_epoch)
    )
    await tell(ended.runs_key, event)
    return answer.code.value.lower()


async def _fenced(streams: StreamCloser, generation_id: str, epoch: int) -> Shown | None:
    """What was shown, standing still; None where Redis is away."""
    try:
        return await streams.fence(generation_id, epoch)
    except RedisAway:
        return None
