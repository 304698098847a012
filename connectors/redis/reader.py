"""The edge's side of a stream: entries, live state, signs of a waiting reader, payloads.

Owns reads and two harmless writes; never appends to a stream and creates no control hash.
"""

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from connectors.errors import RedisAway, RedisFull
from connectors.redis.calls import Calls
from connectors.redis.layout import (
    Entry,
    EntryId,
    control_key,
    format_id,
    parse_id,
    payload_key,
    stream_key,
)
from connectors.redis.scripts import TOUCH
from schemas.generated.types import OnDisconnect, StopReason

ENTRIES_PER_READ_MAX: Final = 1_000
TOUCHES_AT_ONCE_MAX: Final = 128


class PutCode(StrEnum):
    """What became of a write that may fail without harm."""

    OK = "OK"
    FULL = "FULL"
    AWAY = "AWAY"


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """The control hash of a generation as it stands."""

    user_id: str
    runs_key: str
    admitted_at_ms: int
    epoch: int
    status: str
    """queued or running until the end, then the final status; a stop shows in `stop`."""
    stop: StopReason | None = None
    ended: EntryId | None = None
    """Id of the terminal; the stream is complete."""
    reader_seen_at_ms: int | None = None
    on_disconnect: OnDisconnect = OnDisconnect.UNKNOWN
    grace_ms: int = 0


class StreamReader:
    """One for all requests of an edge process. Every read raises RedisAway where Redis is."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def read(
        self, generation_id: str, after: EntryId | None, count: int = ENTRIES_PER_READ_MAX
    ) -> list[Entry]:
        """At most `count` entries strictly after `after`, oldest first; fewer means that was all.
        Empty as well where there is no stream: `live` tells the two apart."""
        return await read_page(self._calls, generation_id, after, count)

    async def live(self, generation_id: str) -> Live | None:
        """The live state, or None where Redis knows nothing of it (any more)."""
        pairs = await self._calls.command("HGETALL", control_key(generation_id))
        fields = {
            name.decode(): value.decode()
            for name, value in zip(pairs[::2], pairs[1::2], strict=True)
        }
        return _live(fields)

    async def touch(self, generation_ids: Sequence[str]) -> None:
        """Says that somebody waits for each of these; nothing where Redis does not know one."""
        for at in range(0, len(generation_ids), TOUCHES_AT_ONCE_MAX):
            some = generation_ids[at : at + TOUCHES_AT_ONCE_MAX]
            await asyncio.gather(
                *(self._calls.script(TOUCH, [control_key(name)], []) for name in some)
            )

    async def put_payload(self, generation_id: str, body: bytes, ttl_s: int) -> PutCode:
        """Keeps a request's body for `ttl_s` seconds."""
        try:
            await self._calls.command("SET", payload_key(generation_id), body, "EX", ttl_s)
        except RedisFull:
            return PutCode.FULL
        except RedisAway:
            return PutCode.AWAY
        return PutCode.OK

    async def get_payload(self, generation_id: str) -> bytes | None:
        """The request's body, or None where it is not here (any more)."""
        body: bytes | None = await self._calls.command("GET", payload_key(generation_id))
        return body


async def read_page(
    calls: Calls, generation_id: str, after: EntryId | None, count: int
) -> list[Entry]:
    """Entries strictly after `after`; errors as for `Calls.command`."""
    start = "-" if after is None else f"({format_id(*after)}"
    found: list[Any] = await calls.command(
        "XRANGE", stream_key(generation_id), start, "+", "COUNT", count
    )
    return [as_entry(name, fields) for name, fields in found]


async def read_rest(calls: Calls, generation_id: str, first: list[Entry]) -> list[Entry]:
    """`first`, which is one whole page or all there is, and every entry behind it."""
    entries = [*first]
    page = first
    while len(page) == ENTRIES_PER_READ_MAX:
        page = await read_page(calls, generation_id, entries[-1].id, ENTRIES_PER_READ_MAX)
        entries += page
    return entries


def as_entry(name: bytes, fields: list[bytes]) -> Entry:
    epoch, sequence = parse_id(name)
    named = dict(zip(fields[::2], fields[1::2], strict=True))
    return Entry(epoch, sequence, named[b"e"].decode(), named[b"d"])


def _live(fields: dict[str, str]) -> Live | None:
    if "user_id" not in fields:
        return None
    stop, seen, ended = fields.get("stop"), fields.get("reader_seen_at_ms"), fields.get("ended")
    return Live(
        user_id=fields["user_id"],
        runs_key=fields["runs_key"],
        admitted_at_ms=int(fields["admitted_at_ms"]),
        epoch=int(fields["epoch"]),
        status=fields["status"],
        stop=None if stop is None else _word(StopReason, stop, StopReason.UNKNOWN),
        ended=None if ended is None else parse_id(ended),
        reader_seen_at_ms=None if seen is None else int(seen),
        on_disconnect=_word(OnDisconnect, fields.get("on_disconnect", ""), OnDisconnect.UNKNOWN),
        grace_ms=int(fields.get("grace_ms", "0")),
    )


Word = TypeVar("Word", bound=StrEnum)


def _word(kind: type[Word], value: str, otherwise: Word) -> Word:
    return kind(value) if value in kind.__members__.values() else otherwise
