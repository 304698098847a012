"""What is known of one generation, and who may know it.

Owns the order in which sources are asked: the payload's row (owner), the closer's row (end), the
runs machine (life), the control hash. Where the payload's row is missing, the hash and the closer's row
name the owner as well. A foreign id and an unknown one are the same to the asker.
"""

import asyncio
import re
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import msgspec

from connectors.errors import RedisAway, RedisRefused, StoreUnavailable, Unfit
from connectors.redis.reader import Live
from connectors.store import Result, ResultStatus
from edge.auth import Caller
from edge.errors import CATALOGUE, ApiError, ErrorCode
from edge.limits import iso
from edge.parts import Parts
from edge.replies import Unanswered
from edge.stored import failed, output_of, usage_of
from schemas.generated.types import (
    Code,
    Hold,
    Phase,
    Query,
    RunsInbox,
    Status,
    Terminal,
    Usage,
)
from topics.registry import RUNS_INBOX

_ID: Final = re.compile(r"gen_[0-9A-HJKMNP-TV-Z]{26}")
Value = TypeVar("Value")


class Owned(msgspec.Struct, frozen=True):
    """A generation of the caller's."""

    generation_id: str
    runs_key: str


async def within(parts: Parts, asked: Awaitable[Value]) -> Value:
    """A read of the store within the answer's time.

    Raises:
        StoreUnavailable: no answer, for whatever reason.
    """
    try:
        async with asyncio.timeout(parts.settings.answer_ms_max / 1_000):
            return await asked
    except (TimeoutError, Unfit) as error:
        raise StoreUnavailable("no answer in time") from error


async def owned(parts: Parts, caller: Caller, generation_id: str) -> Owned:
    """
    Raises:
        ApiError: not_found for an unknown, malformed or foreign id; history_unavailable where
            neither store nor Redis can tell.
    """
    if _ID.fullmatch(generation_id) is None:
        raise ApiError(ErrorCode.NOT_FOUND)
    store_away = False
    try:
        row = await within(parts, parts.store.payload(generation_id))
    except StoreUnavailable:
        row, store_away = None, True
    if row is not None:
        return _of_caller(caller, row.user_id, generation_id, row.runs_key)
    live = await live_of(parts, generation_id)
    if live is not None:
        return _of_caller(caller, live.user_id, generation_id, live.runs_key)
    ended = None
    if not store_away:
        try:
            ended = await ended_row(parts, generation_id)
        except StoreUnavailable:
            store_away = True
    if ended is not None:  # its payload's row was lost; nothing more is asked of runs
        return _of_caller(caller, ended.user_id, generation_id, "")
    raise ApiError(ErrorCode.HISTORY_UNAVAILABLE if store_away else ErrorCode.NOT_FOUND)


def _of_caller(caller: Caller, user_id: str, generation_id: str, runs_key: str) -> Owned:
    if user_id != caller.user_id:
        raise ApiError(ErrorCode.NOT_FOUND)
    return Owned(generation_id, runs_key)


async def live_of(parts: Parts, generation_id: str) -> Live | None:
    """The control hash; None as well where Redis is away."""
    try:
        return await parts.log.live(generation_id)
    except (RedisAway, RedisRefused):
        return None


async def ended_row(parts: Parts, generation_id: str) -> Result | None:
    """The closer's row, once it is there.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    row = await within(parts, parts.store.result(generation_id))
    return row if row is not None and row.ended else None


async def ask_runs(parts: Parts, caller: Caller, own: Owned, wait_ms: int) -> Status | None:
    """What the runs machine knows, or None where it does not answer in time.

    Raises:
        ApiError: too many requests wait already.
    """
    # An id of its own: a late answer to another question of this request is not ours.
    request_id = parts.mint.id("req")
    question = RunsInbox(
        event_id=parts.mint.event_id(),
        body=Query(
            request_id=request_id,
            reply_partition=parts.reply_partition,
            tier=caller.tier,
            user_id=caller.user_id,
            generation_id=own.generation_id,
        ),
    )
    try:
        answer = await parts.replies.ask(
            RUNS_INBOX, own.runs_key, question, request_id, wait_ms, "status"
        )
    except Unanswered:
        return None
    return answer.body if isinstance(answer.body, Status) else None


async def describe(parts: Parts, caller: Caller, own: Owned) -> dict[str, Any]:
    """The body of GET /v1/generations/{id}.

    Raises:
        ApiError: not_found where no machine knows it, history_unavailable where none answers.
    """
    store_away = False
    try:
        row = await ended_row(parts, own.generation_id)
    except StoreUnavailable:
        row, store_away = None, True
    if row is not None:
        return _from_row(row)
    status = await ask_runs(parts, caller, own, parts.settings.answer_ms_max)
    if status is not None and status.known:
        return _from_runs(status)
    live = await live_of(parts, own.generation_id)
    if live is not None:
        return _from_live(own.generation_id, live)
    unknown = status is not None and not store_away
    raise ApiError(ErrorCode.NOT_FOUND if unknown else ErrorCode.HISTORY_UNAVAILABLE)


def _shape(
    generation_id: str,
    status: str,
    *,
    hold: str | None,
    model: str | None,
    epoch: int,
    created_at_ms: int,
    usage: Any = None,
    output: Any = None,
    error: Any = None,
) -> dict[str, Any]:
    return {
        "id": generation_id,
        "status": status,
        "hold": hold,
        "model": model,
        "epoch": epoch,
        "created_at": iso(created_at_ms),
        "usage": usage,
        "output": output,
        "error": error,
    }


def _from_row(row: Result) -> dict[str, Any]:
    text = "" if row.status is ResultStatus.MODERATED else row.text
    code = row.error_code or Code.MODEL_BACKEND_ERROR
    return _shape(
        row.generation_id,
        row.status.value,
        hold=row.hold.value,
        model=row.model,
        epoch=row.epoch,
        created_at_ms=row.admitted_at_ms,
        usage=usage_of(row),
        output=output_of(text) or None,
        error=_error(code, row.generation_id) if row.status is ResultStatus.FAILED else None,
    )


def _error(code: Code, generation_id: str) -> dict[str, Any]:
    error = failed(code.value, generation_id, partial=False)
    return {
        "code": error.code,
        "message": CATALOGUE[error.code].message,
        "retryable": error.retryable,
    }


_LIVE_PHASES: Final = {
    Phase.QUEUED: "queued",
    Phase.RUNNING: "running",
    Phase.STOPPING: "cancel_requested",
}


def status_word(status: Status) -> str:
    """The API's word for what runs knows. Ended and not yet closed is not an end to a reader,
    except where nothing was ever granted."""
    if status.phase in _LIVE_PHASES:
        return "cancel_requested" if status.stop_requested else _LIVE_PHASES[status.phase]
    if status.phase is Phase.CLOSED or status.hold is Hold.RELEASED:
        return terminal_word(status.terminal)
    by_user = status.terminal in (Terminal.CANCELLED, Terminal.STOPPED)
    return "cancel_requested" if by_user else "persisting"


def terminal_word(terminal: Terminal | None) -> str:
    return "failed" if terminal in (None, Terminal.UNKNOWN) else terminal.value


def _from_runs(status: Status) -> dict[str, Any]:
    word = status_word(status)
    ended_badly = word == "failed"
    return _shape(
        status.generation_id,
        word,
        hold=None if status.hold is Hold.UNKNOWN else status.hold.value,
        model=status.model,
        epoch=status.epoch,
        created_at_ms=status.created_at_ms,
        usage=_usage(status.usage),
        error=_error(status.code or Code.MODEL_BACKEND_ERROR, status.generation_id)
        if ended_badly
        else None,
    )


def _usage(usage: Usage | None) -> dict[str, int] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
    }


def _from_live(generation_id: str, live: Live) -> dict[str, Any]:
    """While runs does not answer: the little that the control hash has."""
    running = live.status == "running"
    word = live.status
    if live.status in ("queued", "running"):
        word = "cancel_requested" if live.stop is not None else live.status
    return _shape(
        generation_id,
        word,
        hold=("consumed" if running else "held") if live.ended is None else None,
        model=None,
        epoch=live.epoch,
        created_at_ms=live.admitted_at_ms,
    )
