"""uvicorn's HTTP protocol with our bounds: small buffers, bounded heads, typed refusals.

Owns what happens below ASGI on one connection. Puts the transport into the scope, so that a
reader who does not read can be cut off.
"""

import asyncio
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from edge.context import TRANSPORT

HEAD_BYTES_MAX: Final = 65_536
HEAD_S_MAX: Final = 10.0
WRITE_BUFFER_BYTES: Final = 32_768
_BAD: Final = (
    b'{"error":{"code":"invalid_request","message":"This is no HTTP request we can read; correct '
    b'it.","retryable":false,"request_id":"","details":{}}}'
)


class EdgeProtocol(HttpToolsProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_done()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[TRANSPORT] = self.transport  # type: ignore[typeddict-unknown-key]
        self._head_bytes = 0
        if self._head_timer is None:
            self._await_head()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._head_done()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """`msg` is the server's own word for it; clients get the shape of every error."""
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
            b"cache-control: no-store\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
        )
        self.transport.write(head % len(_BAD) + _BAD)
        self.transport.close()

    def _count(self, more: int) -> None:
        self._head_bytes += more
        if self._head_bytes > HEAD_BYTES_MAX:
            raise ValueError("request head too large")  # the parser makes a 400 of it

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S_MAX, self._head_late)

    def _head_done(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_late(self) -> None:
        self._head_timer = None
        self.transport.close()
