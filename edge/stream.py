"""The streaming response: prebuilt bytes to one socket, in pure ASGI, one task beside its own.

Owns what happens between a reader and its client's socket: writes, disconnects, cuts. Never looks
into a frame.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from edge import context
from edge.answers import Headers
from edge.reader import Item, Reader

STREAM_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store, no-transform"),
    (b"x-accel-buffering", b"no"),
]
WRITE_BYTES_MAX: Final = 32_768
"""One write; a page of the log is sent in such parts, so that each of them shows progress."""
CUT_S_MAX: Final = 1.0
_RESET: Final = struct.pack("ii", 1, 0)


class StreamAnswer(Response):
    """Sends `head` at once, then what the reader gets, until its end. Closes the reader."""

    def __init__(
        self, reader: Reader, head: bytes, headers: Headers, now_s: Callable[[], float]
    ) -> None:
        self.status_code = 200
        self.background = None
        self._reader = reader
        self._head = head
        self._more = headers
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        told = context.of(scope)
        told.answered(200, "ok")
        headers = [*STREAM_HEADERS, (b"x-request-id", told.request_id.encode()), *self._more]
        reader = self._reader
        transport = context.transport_of(scope)
        reader.on_cut = lambda abort: _drop(transport, abort)
        gone = asyncio.create_task(_gone(receive, reader))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._write(send, self._head, last=False)
            while items := await reader.next():
                await self._write(send, joined(items), last=reader.over)
            if reader.cut is not None and transport is not None:
                # The server must learn of the cut first, or it takes the end for a fault of ours.
                await asyncio.wait({gone}, timeout=CUT_S_MAX)
        finally:
            gone.cancel()
            reader.close()

    async def _write(self, send: Send, body: bytes, *, last: bool) -> None:
        reader = self._reader
        for start in range(0, len(body), WRITE_BYTES_MAX):
            part = body[start : start + WRITE_BYTES_MAX] if len(body) > WRITE_BYTES_MAX else body
            more = not last or start + WRITE_BYTES_MAX < len(body)
            reader.writing_since_s = self._now_s()
            await send({"type": "http.response.body", "body": part, "more_body": more})
            reader.writing_since_s = 0.0
            reader.sent_at_s = self._now_s()
            if reader.cut is not None:
                return


def joined(items: list[Item]) -> bytes:
    return items[0][1] if len(items) == 1 else b"".join(frame for _, frame in items)


async def _gone(receive: Receive, reader: Reader) -> None:
    """Ends the reader when its client leaves; what runs for it goes on."""
    while (await receive())["type"] != "http.disconnect":
        pass
    reader.on_cut = None
    reader.end("client")


def _drop(transport: Any, abort: bool) -> None:
    """Closes the connection without the end mark: an answer that is cut must not look whole."""
    if transport is None:
        return
    if not abort:
        transport.close()
        return
    taken = transport.get_extra_info("socket")
    if taken is not None:
        # A reset, at once: the kernel, too, drops what the client does not take, and the client is
        # told; a polite end would wait behind all that.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()
