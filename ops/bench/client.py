"""A small streaming client that keeps time: one POST, its events, this machine's clock.

Owns the measuring only. Raw sockets and C parsers, so that the client's own cost stays small beside what
it measures; it never retries.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

import httptools
import msgspec

STREAM_S_MAX: Final = 120.0
REFUSALS_MAX: Final = 20
RETRY_S: Final = 0.25
_DELTA: Final = b"event: generation.text.delta"
_COMPLETED: Final = b"event: generation.completed"
_ID: Final = "x-generation-id"


class Timed(msgspec.Struct, frozen=True):
    """One answer as its client saw it; times in UTC epoch milliseconds with fractions."""

    generation_id: str
    posted_ms: float
    headers_ms: float
    first_text_ms: float
    ended_ms: float
    events: int
    refusals: int = 0
    """Attempts answered 503 before the one that was served; `posted_ms` is the first one's."""


class BenchFailed(Exception):
    """A stream did not end as it must; the message holds the status and the first bytes."""


class _Answer:
    """Callbacks of the HTTP parser."""

    def __init__(self) -> None:
        self.generation_id = ""
        self.headers_ms = 0.0
        self.first_text_ms = 0.0
        self.events = 0
        self.completed = False
        self.done = False
        self.head = b""

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.decode().lower() == _ID:
            self.generation_id = value.decode()

    def on_headers_complete(self) -> None:
        self.headers_ms = now_ms()

    def on_body(self, body: bytes) -> None:
        if not self.head:
            self.head = body[:300]
        deltas = body.count(_DELTA)
        if deltas and not self.first_text_ms:
            self.first_text_ms = now_ms()
        self.events += deltas
        self.completed = self.completed or _COMPLETED in body

    def on_message_complete(self) -> None:
        self.done = True


def now_ms() -> float:
    return time.time_ns() / 1_000_000


async def ask(port: int, key: str, idempotency_key: str, body: bytes) -> Timed:
    """Streams one generation to its end, asking again under the same key where it is told to.

    Raises:
        BenchFailed: a status that is final and not 200, or an end that is not `completed`.
    """
    posted_ms = now_ms()
    for refusals in range(REFUSALS_MAX):
        timed = await _attempt(port, key, idempotency_key, body, refusals)
        if timed is not None:
            return msgspec.structs.replace(timed, posted_ms=posted_ms)
        await asyncio.sleep(RETRY_S)
    raise BenchFailed(f"refused {REFUSALS_MAX} times")


async def _attempt(
    port: int, key: str, idempotency_key: str, body: bytes, refusals: int
) -> Timed | None:
    async with asyncio.timeout(STREAM_S_MAX):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            f"POST /v1/generations HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Authorization: Bearer {key}\r\nIdempotency-Key: {idempotency_key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Prefer: reattach\r\nConnection: close\r\n\r\n"
        )
        answer = _Answer()
        parser = httptools.HttpResponseParser(answer)
        posted_ms = now_ms()
        writer.write(head.encode() + body)
        while not answer.done and (data := await reader.read(65_536)):
            parser.feed_data(data)
        ended_ms = now_ms()
        writer.close()
    if parser.get_status_code() == 503:
        return None
    if parser.get_status_code() != 200 or not answer.completed:
        raise BenchFailed(f"{parser.get_status_code()}: {answer.head.decode(errors='replace')}")
    return Timed(
        answer.generation_id,
        posted_ms,
        answer.headers_ms,
        answer.first_text_ms,
        ended_ms,
        answer.events,
        refusals,
    )
