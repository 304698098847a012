"""The closer's side of a stream: control writes, what was shown, the one end.

Owns the calls, decides nothing. Control writes pass a full Redis. A write whose number is not
above the stored one changes nothing, so records may come twice and late. Every call raises
RedisAway where Redis is.
"""

from enum import StrEnum

import msgspec

from connectors.redis.calls import Calls
from connectors.redis.connection import Argument
from connectors.redis.layout import EntryId, channel, control_key, format_id, parse_id, stream_key
from connectors.redis.reader import ENTRIES_PER_READ_MAX, as_entry, read_rest
from connectors.redis.scripts import END, FENCE, OPEN, RELEASE, STOP
from connectors.redis.shown import Shown, shown_text
from schemas.generated.types import Open, StopReason

ENDED_TTL_MS = 120_000
"""A stream lives this long past its end; after that the store answers."""


class ControlCode(StrEnum):
    """What became of a control write; none of them needs a repeat."""

    APPLIED = "APPLIED"
    OLD = "OLD"
    """A higher number, or epoch, is there."""
    ENDED = "ENDED"
    MISSING = "MISSING"
    """No control hash; only `open_` and `end` create one."""


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """The one end of a stream, decided beforehand. `snapshot_data` and `data` are compact JSON;
    both entries are written in `epoch`."""

    epoch: int
    number: int
    last: EntryId | None
    """Highest id of the stream as the caller saw it; None where there was no stream."""
    snapshot_sequence: int | None
    snapshot_data: bytes
    terminal_sequence: int
    event: str
    data: bytes
    status: str
    user_id: str
    runs_key: str
    admitted_at_ms: int


class EndCode(StrEnum):
    """What became of an end."""

    APPLIED = "APPLIED"
    ENDED = "ENDED"
    """It had ended before; nothing was changed."""
    MOVED = "MOVED"
    """The stream is not what the caller saw: look again, decide again."""


class EndAnswer(msgspec.Struct, frozen=True):
    """Answer to one end; `terminal` is None only where the stream moved."""

    code: EndCode
    terminal: EntryId | None


class StreamCloser:
    """One for a closer process."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def open_(self, generation_id: str, epoch: int, number: int, order: Open) -> ControlCode:
        """Creates the control hash, or restores it whole after a loss."""
        fields: list[Argument] = [
            *("user_id", order.user_id),
            *("runs_key", order.runs_key),
            *("admitted_at_ms", order.admitted_at_ms),
            *("status", order.status),
            *("on_disconnect", order.on_disconnect.value),
            *("grace_ms", order.disconnect_grace_ms),
        ]
        head: list[Argument] = [
            number,
            epoch,
            order.ttl_ms,
            "" if order.stop is None else order.stop.value,
            "" if order.released_to is None else order.released_to,
        ]
        keys = [control_key(generation_id)]
        return _code(await self._calls.script(OPEN, keys, head + fields))

    async def stop(self, generation_id: str, number: int, reason: StopReason) -> ControlCode:
        """The worker hears of it with its next append; a stop is never taken back."""
        keys = [control_key(generation_id)]
        return _code(await self._calls.script(STOP, keys, [number, reason.value]))

    async def release_to(self, generation_id: str, number: int, code_points: int) -> ControlCode:
        """Text up to `code_points` may be shown."""
        keys = [control_key(generation_id)]
        return _code(await self._calls.script(RELEASE, keys, [number, code_points]))

    async def fence(self, generation_id: str, epoch: int) -> Shown:
        """From now on no epoch below `epoch` appends; tells what a reader from the start has,
        which stands still from here on."""
        last, found = await self._calls.script(
            FENCE,
            [stream_key(generation_id), control_key(generation_id)],
            [epoch, ENTRIES_PER_READ_MAX],
        )
        if not last:
            return Shown("", 0, 0, 0, exists=False)
        first = [as_entry(name, fields) for name, fields in found]
        text, whole = shown_text(await read_rest(self._calls, generation_id, first))
        last_epoch, last_sequence = parse_id(last)
        return Shown(text, len(text), last_epoch, last_sequence, exists=True, whole=whole)

    async def end(self, generation_id: str, closing: Closing) -> EndAnswer:
        """Appends and publishes the snapshot, if any, and the only terminal; marks the end."""
        snapshot = closing.snapshot_sequence
        answer: list[bytes] = await self._calls.script(
            END,
            [stream_key(generation_id), control_key(generation_id)],
            [
                channel(generation_id),
                closing.epoch,
                closing.number,
                "" if closing.last is None else format_id(*closing.last),
                "" if snapshot is None else snapshot,
                closing.snapshot_data,
                closing.terminal_sequence,
                closing.event,
                closing.data,
                ENDED_TTL_MS,
                *("status", closing.status),
                *("user_id", closing.user_id),
                *("runs_key", closing.runs_key),
                *("admitted_at_ms", closing.admitted_at_ms),
            ],
        )
        code = EndCode(answer[0].decode())
        return EndAnswer(code, None if code is EndCode.MOVED else parse_id(answer[1]))


def _code(answer: bytes) -> ControlCode:
    return ControlCode(answer.decode())
