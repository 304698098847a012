"""Answers in one piece: JSON and errors as prebuilt bytes. Pure ASGI, no middleware.

Owns the headers every private answer carries; never decides what is answered.
"""

import asyncio
import time
from typing import Any, Final

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edge import context
from edge.errors import ApiError, error_body, error_headers

Headers = list[tuple[bytes, bytes]]
NO_STORE: Final = (b"cache-control", b"no-store")
_JSON: Final = (b"content-type", b"application/json")
LINGER_S_MAX: Final = 2.0
LINGER_BYTES_MAX: Final = 64 * 1_048_576


class Answer(Response):
    """One whole answer. A subclass of Response only so that the framework hands it on."""

    def __init__(
        self, status: int, body: bytes, headers: Headers, code: str = "ok", content: bytes = b""
    ) -> None:
        self.status_code = status
        self.body = body
        self.code = code
        self.background = None
        kind = (b"content-type", content) if content else _JSON
        self.raw_headers = [kind, (b"content-length", b"%d" % len(body)), *headers]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = context.of(scope)
        told.answered(self.status_code, self.code)
        headers = [*self.raw_headers, (b"x-request-id", told.request_id.encode())]
        unread = not told.body_read and scope["method"] in ("POST", "PUT", "PATCH")
        if unread:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": unread})
        if unread:
            await _drop_body(receive)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _drop_body(receive: Receive) -> None:
    """Reads on for a moment, so that the client is done sending and finds the answer.

    A connection closed over unread bytes is reset, and the reset can overtake the answer.
    """
    dropped = 0
    until_s = time.monotonic() + LINGER_S_MAX
    try:
        async with asyncio.timeout(LINGER_S_MAX):
            while dropped < LINGER_BYTES_MAX and time.monotonic() < until_s:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
                dropped += len(message.get("body", b""))
    except TimeoutError:
        return


def json_answer(value: Any, status: int = 200, headers: Headers | None = None) -> Answer:
    """A private JSON document."""
    return Answer(status, msgspec.json.encode(value), [NO_STORE, *(headers or [])])


def error_answer(error: ApiError, request_id: str, headers: Headers | None = None) -> Answer:
    """One error of the catalogue."""
    more = [NO_STORE, *error_headers(error), *(headers or [])]
    return Answer(error.status, error_body(error, request_id), more, error.code.value)
