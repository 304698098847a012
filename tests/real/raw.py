"""HTTP by hand, for requests that no client library would send."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any
from urllib.parse import urlsplit

import msgspec

READ_S_MAX = 30.0
CHUNK_BYTES = 65_536


class Reply(msgspec.Struct, frozen=True):
    """What came back, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes
    sent_bytes: int
    """Bytes of the body that went out before the server answered."""

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)["error"]
        return found


def head(method: str, path: str, headers: Iterable[tuple[str, bytes]]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode(), b"Host: localhost"]
    lines += [name.encode() + b": " + value for name, value in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n"


async def exchange(url: str, first: bytes, body: AsyncIterator[bytes] | None = None) -> Reply:
    """Sends the head, then the body piece by piece until an answer comes, and reads that."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    answered = asyncio.create_task(_read(reader))
    sent = 0
    try:
        writer.write(first)
        if body is not None:
            async for piece in body:
                if answered.done() or writer.is_closing():
                    break
                try:
                    writer.write(piece)
                    await writer.drain()
                except ConnectionError:
                    break
                sent += len(piece)
        status, headers, content = await asyncio.wait_for(answered, READ_S_MAX)
    finally:
        answered.cancel()
        writer.close()
    return Reply(status, headers, content, sent)


async def chunked(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Transfer-Encoding: chunked, without an end."""
    async for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)


async def slowly(data: bytes, pause_s: float) -> AsyncIterator[bytes]:
    """One byte at a time."""
    for byte in data:
        yield bytes([byte])
        await asyncio.sleep(pause_s)


async def filler(count: int) -> AsyncIterator[bytes]:
    for _ in range(0, count, CHUNK_BYTES):
        yield b"x" * CHUNK_BYTES


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    first = await reader.readuntil(b"\r\n\r\n")
    lines = first.decode("latin-1").split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:] if line)
    }
    length = int(headers.get("content-length", "0"))
    return int(lines[0].split()[1]), headers, await reader.readexactly(length)
