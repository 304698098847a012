"""Small health probes that the parts share: does a port answer in its protocol, a URL with 200.

Every probe has a deadline of its own and says in a few words what it saw.
"""

from __future__ import annotations

import asyncio

from ops.stack.part import NotReady

HOST = "127.0.0.1"
EXCHANGE_S_MAX = 2.0
HTTP_S_MAX = 2.0
HEAD_BYTES_MAX = 4096


async def exchange(port: int, request: bytes, answer: bytes, skip: int = 0) -> None:
    """Raises `NotReady` unless the reply, after `skip` bytes, begins with `answer`."""
    try:
        got = await asyncio.wait_for(_exchange(port, request, skip + len(answer)), EXCHANGE_S_MAX)
    except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
        raise NotReady(f"no answer from port {port}") from error
    if got[skip:] != answer:
        raise NotReady(f"port {port} answers in another protocol")


async def _exchange(port: int, request: bytes, size: int) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(request)
        await writer.drain()
        return await reader.readexactly(size)
    finally:
        writer.close()


async def http_ok(port: int, path: str) -> None:
    """Raises `NotReady` unless `GET path` answers 200. Reads the status line only."""
    try:
        status = await asyncio.wait_for(_status(port, path), HTTP_S_MAX)
    except (OSError, TimeoutError, ValueError) as error:
        raise NotReady(f"no answer from port {port}{path}") from error
    if status != 200:
        raise NotReady(f"port {port}{path} answered {status}")


async def _status(port: int, path: str) -> int:
    reader, writer = await asyncio.open_connection(HOST, port, limit=HEAD_BYTES_MAX)
    try:
        request = f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nConnection: close\r\n\r\n"
        writer.write(request.encode("ascii"))
        await writer.drain()
        line = await reader.readline()
    finally:
        writer.close()
    words = line.split(maxsplit=2)
    if len(words) < 2:
        raise ValueError("not an HTTP answer")
    return int(words[1])
