"""`/v1/generations`: ask, look, read again, stop. Owns the order of checks of each route."""

import asyncio

from fastapi import APIRouter, Request, Response

from edge import context
from edge.answers import json_answer
from edge.body import read_nothing
from edge.cancel import REQUESTED, request_stop
from edge.openapi import CANCEL, CREATE, READ, STREAM
from edge.parts import Parts
from edge.request import GenerationRequest, idempotency_key, parse_request
from edge.respond import known_answer, new_answer, resumed_answer
from edge.resume import Resume
from edge.sse import parse_last_event_id
from edge.status import describe, owned
from edge.submit import Known, submit, understand

BODY_AT_ONCE_BYTES_MAX = 16_384
"""Longer bodies are decoded on a thread, beside the streams of this process."""


def routes(parts: Parts) -> APIRouter:
    """The router of this noun; `parts` are what it needs."""
    router = APIRouter(prefix="/v1/generations")

    @router.post("", openapi_extra=CREATE, summary="Ask", tags=["generations"])
    async def create(request: Request) -> Response:
        return await _create(parts, request)

    @router.get("/{generation_id}", openapi_extra=READ, summary="Look", tags=["generations"])
    async def read(request: Request, generation_id: str) -> Response:
        caller = await parts.keys.caller(request.scope["headers"])
        own = await owned(parts, caller, generation_id)
        return json_answer(await describe(parts, caller, own))

    @router.get(
        "/{generation_id}/stream", openapi_extra=STREAM, summary="Read again", tags=["generations"]
    )
    async def stream(request: Request, generation_id: str) -> Response:
        caller = await parts.keys.caller(request.scope["headers"])
        own = await owned(parts, caller, generation_id)
        return await resumed_answer(parts, caller, own, _resume(request))

    @router.post(
        "/{generation_id}/cancel", openapi_extra=CANCEL, summary="Stop", tags=["generations"]
    )
    async def cancel(request: Request, generation_id: str) -> Response:
        caller = await parts.keys.caller(request.scope["headers"])
        await read_nothing(parts.bodies, request)
        own = await owned(parts, caller, generation_id)
        word = await request_stop(parts, caller, own)
        return json_answer({"status": word}, 202 if word == REQUESTED else 200)

    return router


async def _create(parts: Parts, request: Request) -> Response:
    caller = await parts.keys.caller(request.scope["headers"])
    key = idempotency_key(_values(request, b"idempotency-key"))
    asked_for = await _read(parts, request)
    told = context.of(request.scope)
    asked = await understand(parts, caller, key, asked_for, told.request_id)
    outcome = await submit(parts, asked)
    if isinstance(outcome, Known):
        return await known_answer(parts, request, asked, outcome)
    return await new_answer(parts, request, asked, outcome)


async def _read(parts: Parts, request: Request) -> GenerationRequest:
    body = await parts.bodies.read(request)
    try:
        raw = bytes(body.raw)
        if len(raw) <= BODY_AT_ONCE_BYTES_MAX:
            return parse_request(raw)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(parts.threads, parse_request, raw)
    finally:
        body.release()


def _resume(request: Request) -> Resume:
    given = _values(request, b"last-event-id")
    after = parse_last_event_id(given)
    return Resume(after, unusable=bool(given) and after is None)


def _values(request: Request, name: bytes) -> list[bytes]:
    return [value for header, value in request.scope["headers"] if header == name]
