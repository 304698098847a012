"""Clients behind a tiny window that read nothing, or sip by sip, as a sleeping laptop does."""

from __future__ import annotations

import asyncio
import json
import select
import socket
import time
import uuid
from typing import Any
from urllib.parse import urlsplit

from connectors.sse.parser import Event, Parser
from tests.real.client import body_of
from tests.real.raw import head
from tests.real.waiting import until_so

WINDOW_BYTES = 4_096
READ_BYTES = 4_096
SIP_BYTES = 20
SIP_S = 0.1
CUT_S_MAX = 20.0
_HUNG_UP = select.POLLERR | select.POLLHUP | select.POLLRDHUP


class SilentReader:
    """Asks, and then reads nothing at all."""

    def __init__(self, made: socket.socket, key: str) -> None:
        self.key = key
        self._socket = made
        self._poll = select.poll()
        self._poll.register(made, _HUNG_UP)

    @property
    def hung_up(self) -> bool:
        """The server did; what came before may still be read."""
        return bool(self._poll.poll(0))

    async def cut(self) -> None:
        """Returns once the server has hung up."""
        deadline = time.monotonic() + CUT_S_MAX
        while not self.hung_up:
            assert time.monotonic() < deadline, "a reader that does not read was not cut"
            await asyncio.sleep(SIP_S)

    def close(self) -> None:
        self._socket.close()


class SlowReader(SilentReader):
    """Reads up to the first word, and then 200 bytes a second."""

    events: list[Event]
    generation_id: str
    last_id: str

    async def cut(self) -> None:
        """Sips until the server has hung up. What the reader saw is in `events`."""
        loop = asyncio.get_running_loop()
        raw, parser, self.events = b"", Parser(), []
        while b"\r\n\r\n" not in raw:
            raw += await loop.sock_recv(self._socket, READ_BYTES)
        lines, _, rest = raw.partition(b"\r\n\r\n")
        named = next(line for line in lines.split(b"\r\n") if line.startswith(b"x-generation-id"))
        self.generation_id = named.partition(b": ")[2].decode()
        chunks = _Chunks()
        self.events += parser.feed(chunks.feed(rest))
        try:
            while sip := await loop.sock_recv(self._socket, self._sip()):
                self.events += parser.feed(chunks.feed(sip))
                if parser.last_event_id and not self.hung_up:
                    await asyncio.sleep(SIP_S)
        except ConnectionError:
            pass
        self.last_id = parser.last_event_id

    def _sip(self) -> int:
        return SIP_BYTES if self.events and self.events[-1].id else READ_BYTES


class _Chunks:
    """Undoes Transfer-Encoding: chunked, cut anywhere."""

    def __init__(self) -> None:
        self._raw = b""
        self._left = 0

    def feed(self, data: bytes) -> bytes:
        self._raw += data
        shown = b""
        while self._raw:
            if self._left == 0:
                line, found, rest = self._raw.lstrip(b"\r\n").partition(b"\r\n")
                if not found:
                    break
                self._left, self._raw = int(line, 16), rest
            part, self._raw = self._raw[: self._left], self._raw[self._left :]
            self._left -= len(part)
            shown += part
        return shown


async def connect(url: str, key: str, content: str, **more: Any) -> socket.socket:
    """A socket with a window of 4 kB that has asked for one stream."""
    place = urlsplit(url)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WINDOW_BYTES)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, (place.hostname, place.port))
    body = json.dumps(body_of(content, **more)).encode()
    headers = [
        ("Authorization", f"Bearer {key}".encode()),
        ("Idempotency-Key", uuid.uuid4().hex.encode()),
        ("Content-Length", b"%d" % len(body)),
    ]
    await loop.sock_sendall(made, head("POST", "/v1/generations", headers) + body)
    try:
        await until_so(lambda: b"\r\n\r\n" in peek(made))
        assert peek(made).startswith(b"HTTP/1.1 200 "), peek(made)
    except BaseException:
        made.close()
        raise
    return made


def peek(made: socket.socket) -> bytes:
    """What would be read next; nothing is taken."""
    try:
        return made.recv(READ_BYTES, socket.MSG_PEEK)
    except BlockingIOError:
        return b""
