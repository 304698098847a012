"""From an outcome to a response: a stream or one document, of a new, a known or a kept answer.

Owns the two modes. What they carry is the same.
"""

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from connectors.errors import StoreUnavailable
from connectors.store import Result, ResultStatus
from edge import context
from edge.answers import Answer, Headers, json_answer
from edge.auth import Caller
from edge.body import Gone
from edge.collect import collect, collected_document
from edge.errors import ApiError, ErrorCode
from edge.limits import limit_headers
from edge.opening import opening
from edge.parts import Parts
from edge.reader import Reader
from edge.resume import Attached, Over, Resume, Source, open_source
from edge.sse import BEFORE_ALL, ENDED, Framer
from edge.status import Owned, ask_runs, ended_row, status_word
from edge.stored import row_document, row_failed, stored_end
from edge.stream import STREAM_HEADERS, StreamAnswer
from edge.submit import Admitted, Asked, Known

RUN_MARGIN_S: Final = 10.0
"""From a run's deadline to its closed end, generously."""
STATUS_WAIT_MS: Final = 300
_REPLAYED: Final = (b"idempotent-replayed", b"true")


async def new_answer(parts: Parts, request: Request, asked: Asked, admitted: Admitted) -> Response:
    """The answer to a request that was just queued.

    Raises:
        ApiError: in one piece only, where the generation failed.
    """
    feed, queued = admitted.feed, admitted.queued
    headers = [
        _generation(queued.generation_id),
        *limit_headers(queued.limits, admitted.now_ms),
    ]
    settings = parts.settings
    run_s = (settings.queue_wait_ms_max + settings.run_ms_max) / 1_000 + RUN_MARGIN_S
    until_s = parts.mint.now_s() + (settings.stream_s_max if asked.request.stream else run_s)
    started_s = context.of(request.scope).started_s
    try:
        reader = feed.reader(BEFORE_ALL, until_s, started_s, fresh=admitted.fresh)
    finally:
        parts.hub.release(feed)
    if asked.request.stream:
        return StreamAnswer(reader, opening(feed.framer, queued), headers, parts.mint.now_s)
    return await _collected(parts, request, reader, queued.generation_id, queued.model, headers)


async def known_answer(parts: Parts, request: Request, asked: Asked, known: Known) -> Response:
    """The answer to a key that was used before.

    Raises:
        ApiError: another body, still running, expired, or what the generation failed with.
    """
    repeated = known.repeated
    told = {"generation_id": repeated.generation_id}
    if not repeated.same:
        raise ApiError(ErrorCode.IDEMPOTENCY_CONFLICT, details=told)
    own = Owned(repeated.generation_id, asked.identity.runs_key)
    headers = [_generation(repeated.generation_id)]
    if not repeated.running:
        headers.append(_REPLAYED)
    elif _wants_reattach(request):
        headers.append((b"preference-applied", b"reattach"))
    else:
        status = await ask_runs(parts, asked.caller, own, STATUS_WAIT_MS)
        word = "running" if status is None or not status.known else status_word(status)
        raise ApiError(
            ErrorCode.GENERATION_IN_PROGRESS,
            details={**told, "status": word},
            headers=tuple(headers),
        )
    source = await _known_source(parts, asked, own, running=repeated.running)
    if asked.request.stream:
        return stream_answer(parts, own, source, headers)
    if isinstance(source, Attached):
        model = asked.model.alias
        return await _collected(parts, request, source.reader, own.generation_id, model, headers)
    assert not isinstance(source, Over), "without a resume id nothing is over"
    return _row_answer(source.row, headers)


async def _known_source(parts: Parts, asked: Asked, own: Owned, *, running: bool) -> Source:
    """Where the answer of a used key comes from. To a POST nothing is "not found": accounts knows the
    key, and what runs does not know has not come there yet, was refused for coming late, or is forgotten.

    Raises:
        ApiError: generation_in_progress, asked again it is decided afresh or found;
            result_unavailable; as `open_source` for all else.
    """
    try:
        return await open_source(parts, asked.caller, own, Resume())
    except ApiError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
    code = ErrorCode.GENERATION_IN_PROGRESS if running else ErrorCode.RESULT_UNAVAILABLE
    told = {"generation_id": own.generation_id}
    if running:
        told["status"] = "running"
    raise ApiError(code, details=told, headers=(_generation(own.generation_id),))


async def resumed_answer(parts: Parts, caller: Caller, own: Owned, resume: Resume) -> Response:
    """The stream of an existing generation."""
    source = await open_source(parts, caller, own, resume)
    return stream_answer(parts, own, source, [_generation(own.generation_id)])


def stream_answer(parts: Parts, own: Owned, source: Source, headers: Headers) -> Response:
    match source:
        case Attached():
            return StreamAnswer(source.reader, source.head, headers, parts.mint.now_s)
        case Over():
            body = ENDED
        case _:
            end = stored_end(source.row, Framer(own.generation_id), BEFORE_ALL)
            body = b"".join(frame for _, frame in end)
    kind, *more = STREAM_HEADERS
    return Answer(200, body, [*more, *headers], content=kind[1])


async def _collected(
    parts: Parts,
    request: Request,
    reader: Reader,
    generation_id: str,
    model: str,
    headers: Headers,
) -> Response:
    gone = asyncio.create_task(_watch(request.receive, reader))
    try:
        collected = await collect(reader, parts.settings.result_bytes_max)
        if reader.cut == "client":
            raise Gone
    finally:
        gone.cancel()
        reader.close()
    if collected.overflowed and collected.end is not None:
        return await _kept_answer(parts, generation_id, headers)
    try:
        return json_answer(collected_document(collected, generation_id, model), headers=headers)
    except ApiError as error:
        error.headers = (*error.headers, *headers)
        raise


async def _kept_answer(parts: Parts, generation_id: str, headers: Headers) -> Response:
    """What was too long to be collected here; the store has it whole."""
    try:
        row = await ended_row(parts, generation_id)
    except StoreUnavailable:
        row = None
    if row is None:
        raise ApiError(ErrorCode.HISTORY_UNAVAILABLE, headers=tuple(headers))
    return _row_answer(row, headers)


def _row_answer(row: Result, headers: Headers) -> Response:
    if row.status is ResultStatus.FAILED:
        error = row_failed(row)
        error.headers = tuple(headers)
        raise error
    return json_answer(row_document(row), headers=headers)


async def _watch(receive: Receive, reader: Reader) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.end("client")


def _generation(generation_id: str) -> tuple[bytes, bytes]:
    return (b"x-generation-id", generation_id.encode())


def _wants_reattach(request: Request) -> bool:
    given = b",".join(value for name, value in request.scope["headers"] if name == b"prefer")
    wishes = given.lower().replace(b";", b",").split(b",")
    return any(wish.strip() == b"reattach" for wish in wishes)
