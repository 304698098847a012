"""One HTTP request between two simulated processes: ASGI on one side, a client's socket on the other.

Owns order, back-pressure and breaks of one connection. A dead edge breaks it, a frozen one leaves it
silent.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp

from edge.context import TRANSPORT
from tests.simulation.loop import PROCESS, Process, SimulationLoop

UNREAD_BYTES_MAX: Final = 65_536
Headers = dict[str, str]


class Broken(Exception):
    """The connection ended before the response did, or never came to be."""


class Head:
    """How a response begins."""

    def __init__(self, status: int, headers: Headers) -> None:
        self.status = status
        self.headers = headers


class Exchange:
    """Made by the client's process; `way_s` is one way of a message."""

    def __init__(
        self,
        loop: SimulationLoop,
        server: Process,
        app: ASGIApp,
        scope: dict[str, Any],
        body: bytes,
        way_s: Callable[[], float],
    ) -> None:
        self._loop = loop
        self._server = loop.context_of(server)
        self._client = loop.context_of(PROCESS.get(loop.world))
        self._way_s = way_s
        self._body: bytes | None = body
        self._to_client: deque[Head | bytes | None] = deque()
        self._arrived: deque[Head | bytes | None] = deque()
        self._unread = 0
        self._whole = False
        self._left = False
        self.broken = False
        self._client_wakes: asyncio.Future[None] | None = None
        self._server_wakes: list[asyncio.Future[None]] = []
        server.on_exit.append(self.break_)
        PROCESS.get(loop.world).on_exit.append(self.leave)
        scope[TRANSPORT] = self
        loop.call_later(way_s(), self._begin, app, scope, context=self._server)

    # --- the client's side

    async def head(self) -> Head:
        """
        Raises:
            Broken: no response comes.
        """
        head = await self._next()
        assert isinstance(head, Head)
        return head

    async def chunk(self) -> bytes | None:
        """Some bytes of the body; None at its end.

        Raises:
            Broken: the rest does not come.
        """
        chunk = await self._next()
        assert not isinstance(chunk, Head)
        if chunk is not None:
            self._unread -= len(chunk)
            self._loop.call_later(self._way_s(), self._wake_server, context=self._server)
        return chunk

    def leave(self) -> None:
        """The client closes its socket."""
        if not self._left:
            self._left = True
            self._loop.call_later(self._way_s(), self._wake_server, context=self._server)

    async def _next(self) -> Head | bytes | None:
        while not self._arrived:
            if self.broken:
                raise Broken("connection reset")
            self._client_wakes = self._loop.create_future()
            try:
                await self._client_wakes
            finally:
                self._client_wakes = None
        return self._arrived.popleft()

    def _arrive(self) -> None:
        if self._to_client:
            self._arrived.append(self._to_client.popleft())
            self._wake_client()

    def _wake_client(self) -> None:
        if self._client_wakes is not None and not self._client_wakes.done():
            self._client_wakes.set_result(None)

    # --- the server's side

    def _begin(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        self._loop.create_task(self._serve(app, scope), name="request")

    async def _serve(self, app: ASGIApp, scope: dict[str, Any]) -> None:
        await app(scope, self._receive, self._send)
        if not self._whole:
            self.break_()

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        while not (self._left or self._whole or self.broken):
            await self._server_sleeps()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if self._left or self.broken:
            return
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode() for name, value in message["headers"]}
            self._go(Head(message["status"], headers))
            return
        body: bytes = message.get("body", b"")
        if body:
            self._unread += len(body)
            self._go(body)
        if not message.get("more_body", False):
            self._whole = True
            self._go(None)
            self._wake_server()
        while self._unread > UNREAD_BYTES_MAX and not (self._left or self.broken):
            await self._server_sleeps()

    def _go(self, part: Head | bytes | None) -> None:
        self._to_client.append(part)
        self._loop.call_later(self._way_s(), self._arrive, context=self._client)

    async def _server_sleeps(self) -> None:
        waker: asyncio.Future[None] = self._loop.create_future()
        self._server_wakes.append(waker)
        await waker

    def _wake_server(self) -> None:
        sleepers, self._server_wakes = self._server_wakes, []
        for sleeper in sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    # --- what the edge knows as the connection's transport

    def break_(self) -> None:
        """What is on its way arrives, then the connection is seen to be gone."""
        if not self.broken:
            self.broken = True
            self._loop.call_later(self._way_s(), self._wake_client, context=self._client)
            self._wake_server()

    close = break_
    abort = break_

    def get_extra_info(self, name: str) -> None:
        """There is no socket."""


def scope_of(method: str, path: str, headers: Headers) -> dict[str, Any]:
    """An ASGI scope of one request."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
