"""Request bodies: read within bytes and time, refused the moment a bound is passed.

Owns how bytes arrive; never looks into them.
"""

import asyncio
from typing import Any, Final

from starlette.requests import Request

from edge import context
from edge.errors import ApiError, ErrorCode, invalid

_IDENTITY: Final = (b"", b"identity")


class Gone(Exception):
    """The client left before its request was whole; nobody reads an answer."""


class Bodies:
    """Bounds one body, and all bodies that are in work at once."""

    def __init__(self, bytes_max: int, bytes_total_max: int, wait_s_max: float) -> None:
        self._bytes_max = bytes_max
        self._bytes_total_max = bytes_total_max
        self._wait_s_max = wait_s_max
        self.bytes_held = 0

    async def read(self, request: Request) -> "Body":
        """The whole body, to be released when its work is done.

        Raises:
            ApiError: 413 over the bound, 408 too slow, 415 encoded, 503 too much in work.
            Gone: the client left.
        """
        self._check_head(request)
        body = Body(self)
        try:
            async with asyncio.timeout(self._wait_s_max):
                while body.add(await request.receive()):
                    pass
        except TimeoutError:
            body.release()
            raise self._too_slow() from None
        except BaseException:
            body.release()
            raise
        context.of(request.scope).body_read = True
        return body

    def take(self, count: int, held: int) -> None:
        """Counts bytes in; raises where a bound is passed."""
        if held + count > self._bytes_max:
            raise self._too_large()
        if self.bytes_held + count > self._bytes_total_max:
            raise ApiError(ErrorCode.CAPACITY_EXHAUSTED)
        self.bytes_held += count

    def _check_head(self, request: Request) -> None:
        for name, value in request.scope["headers"]:
            if name == b"content-encoding" and value.strip().lower() not in _IDENTITY:
                raise invalid("Content-Encoding", "only identity is taken; send plain JSON", 415)
            if name == b"content-length" and int(value) > self._bytes_max:
                raise self._too_large()

    def _too_large(self) -> ApiError:
        return ApiError(
            ErrorCode.PAYLOAD_TOO_LARGE,
            f"The body is over {self._bytes_max} bytes; send a shorter one.",
            details={"body_bytes_max": self._bytes_max},
        )

    def _too_slow(self) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The body did not arrive within {self._wait_s_max:g} s; send it again.",
            details={"param": "body"},
            status=408,
            retryable=True,
        )


class Body:
    """One body and its share of the total."""

    __slots__ = ("_bodies", "_held", "raw")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._held = 0
        self.raw = bytearray()

    def add(self, message: Any) -> bool:
        """Takes one ASGI message in; False where it was the last."""
        if message["type"] == "http.disconnect":
            raise Gone
        chunk: bytes = message.get("body", b"")
        self._bodies.take(len(chunk), self._held)
        self._held += len(chunk)
        self.raw += chunk
        return bool(message.get("more_body", False))

    def release(self) -> None:
        self._bodies.bytes_held -= self._held
        self._held = 0
        self.raw = bytearray()


async def read_nothing(bodies: Bodies, request: Request) -> None:
    """For POSTs that take nothing: an empty body or `{}`.

    Raises:
        ApiError: anything else, or a bound.
    """
    body = await bodies.read(request)
    given = bytes(body.raw).strip()
    body.release()
    if given not in (b"", b"{}"):
        raise invalid("body", "no parameters are taken here; send none")
