"""Where a stream of an existing generation comes from: the log, the store, or nowhere any more.

Owns the judgement of resume ids. An id that is not one of this stream never leads to a silent
wait: it gets the whole stream again, which begins with an empty snapshot to say so.
"""

import asyncio

import msgspec

from connectors.errors import RedisAway, RedisRefused, StoreUnavailable
from connectors.redis.layout import Entry, EntryId, format_id
from connectors.redis.reader import Live
from connectors.store import Result
from edge.auth import Caller
from edge.errors import ApiError, ErrorCode
from edge.feed import Feed
from edge.opening import created_frame, queued_frame, restart_frame
from edge.parts import Parts
from edge.reader import Reader
from edge.sse import BEFORE_ALL
from edge.status import Owned, ask_runs, ended_row, status_word
from schemas.generated.types import Phase, Status


class Attached(msgspec.Struct, frozen=True):
    """A reader in its place; `head` goes out before what it gets."""

    reader: Reader
    head: bytes


class Stored(msgspec.Struct, frozen=True):
    """The stream is gone; the row has its text and its end."""

    row: Result


class Over(msgspec.Struct, frozen=True):
    """The client has the terminal already."""


Source = Attached | Stored | Over


class Resume(msgspec.Struct, frozen=True):
    """`after` None: from the start. `unusable`: an id came that is none of ours."""

    after: EntryId | None = None
    unusable: bool = False


async def open_source(parts: Parts, caller: Caller, own: Owned, resume: Resume) -> Source:
    """
    Raises:
        ApiError: result_unavailable where the text has expired, not_found where nobody knows the
            generation, history_unavailable where nobody can tell.
    """
    feed = parts.hub.hold(own.generation_id)
    try:
        await parts.hub.confirmed(feed, parts.settings.payload_ms_max / 1_000)
        found = await _in_log(parts, own.generation_id, resume)
        if found is not None:
            return _from_log(parts, feed, resume, *found)
        return await _without_log(parts, caller, own, feed, resume)
    finally:
        parts.hub.release(feed)


async def _in_log(
    parts: Parts, generation_id: str, resume: Resume
) -> tuple[Live, list[Entry]] | None:
    """Control state and first entries from the resume id on (itself included), or None where
    Redis is away, knows nothing of the generation, or has lost its ended stream."""
    after = resume.after
    before = None if after is None else (after[0], after[1] - 1)
    try:
        live, entries = await asyncio.gather(
            parts.log.live(generation_id), parts.log.read(generation_id, before, 1)
        )
    except (RedisAway, RedisRefused):
        return None
    if live is None or (live.ended is not None and not await _has(parts, generation_id, live)):
        return None
    return live, entries


async def _has(parts: Parts, generation_id: str, live: Live) -> bool:
    """Whether the terminal that the control hash names is in the stream."""
    assert live.ended is not None
    epoch, sequence = live.ended
    try:
        found = await parts.log.read(generation_id, (epoch, sequence - 1), 1)
    except (RedisAway, RedisRefused):
        return False
    return bool(found)


def _from_log(parts: Parts, feed: Feed, resume: Resume, live: Live, entries: list[Entry]) -> Source:
    after = resume.after
    if after is not None and after == live.ended:
        return Over()
    if after is not None and entries and entries[0].id == after:
        return Over() if entries[0].terminal else _attach(parts, feed, after, b"")
    head = created_frame(feed.framer, live.status)
    if live.status == "queued":
        deadline_ms = live.admitted_at_ms + parts.settings.queue_wait_ms_max
        head += queued_frame(feed.framer, None, deadline_ms)
    return _attach(parts, feed, BEFORE_ALL, head + _restart(feed, resume))


async def _without_log(
    parts: Parts, caller: Caller, own: Owned, feed: Feed, resume: Resume
) -> Source:
    try:
        row = await ended_row(parts, own.generation_id)
        if row is None:
            status = await _known(parts, caller, own)
            if status.phase is not Phase.CLOSED:
                head = created_frame(feed.framer, status_word(status)) + _restart(feed, resume)
                return _attach(parts, feed, BEFORE_ALL, head)
            row = await ended_row(parts, own.generation_id)  # it may have ended in between
    except StoreUnavailable:
        raise ApiError(ErrorCode.HISTORY_UNAVAILABLE) from None
    if row is None:
        raise ApiError(ErrorCode.RESULT_UNAVAILABLE, details={"generation_id": own.generation_id})
    if resume.after is not None and format_id(*resume.after) == row.terminal_id:
        return Over()
    return Stored(row)


async def _known(parts: Parts, caller: Caller, own: Owned) -> Status:
    """
    Raises:
        ApiError: runs does not answer, or does not know the generation.
    """
    status = await ask_runs(parts, caller, own, parts.settings.answer_ms_max)
    if status is None:
        raise ApiError(ErrorCode.HISTORY_UNAVAILABLE)
    if not status.known:
        raise ApiError(ErrorCode.NOT_FOUND)
    return status


def _attach(parts: Parts, feed: Feed, cursor: EntryId, head: bytes) -> Attached:
    until_s = parts.mint.now_s() + parts.settings.stream_s_max
    return Attached(feed.reader(cursor, until_s, None, fresh=False), head)


def _restart(feed: Feed, resume: Resume) -> bytes:
    fresh = resume.after is None and not resume.unusable
    return b"" if fresh else restart_frame(feed.framer)
