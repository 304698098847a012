"""The worker's side of a stream: append an entry, keep it alive, hear stop and fence.

Owns one script call per flush; never creates a control hash and never appends a terminal.
"""

from enum import StrEnum

import msgspec

from connectors.errors import RedisAway, RedisFull, StreamOrderBroken
from connectors.redis.calls import Calls
from connectors.redis.layout import channel, control_key, stream_key
from connectors.redis.scripts import APPEND, CHECK
from schemas.generated.types import StopReason


class AppendCode(StrEnum):
    """What became of an append."""

    OK = "OK"
    FENCED = "FENCED"
    """A newer epoch, or the end, is there: stop at once, nothing was appended."""
    STOP = "STOP"
    """Appended; end within this step."""
    LOST = "LOST"
    """The control hash is not there: nothing was appended; keep the text and ask runs."""
    FULL = "FULL"
    """Redis has no memory left: nothing was appended; keep the text. `stop` is told all the same."""
    AWAY = "AWAY"
    """No answer in time; whether it was appended is unknown. Repeat the same bytes."""


class Appended(msgspec.Struct, frozen=True):
    """Answer to one append. `reader_age_ms`: since an edge last said that somebody waits; None
    where none ever did or it is not known."""

    code: AppendCode
    missing: bool = False
    """The stream was gone and holds nothing before this entry: append a `snapshot` next."""
    stop: StopReason | None = None
    reader_age_ms: int | None = None


class StreamWriter:
    """One for all generations of a worker process."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def append(
        self, generation_id: str, epoch: int, sequence: int, event: str, data: bytes | None
    ) -> Appended:
        """Appends and publishes entry `<epoch>-<sequence>`; with `data` None appends nothing and
        only keeps both keys alive, `sequence` then being the last one used (0 before the first).

        A first call of a higher epoch raises the epoch and fences all lower ones. The same bytes
        under the same number count once, so what is AWAY is repeated unchanged.

        Raises:
            StreamOrderBroken: the number is taken by another entry of this epoch.
        """
        try:
            if data is None:
                return await self._check(generation_id, epoch, sequence)
            try:
                return _appended(await self._append(generation_id, epoch, sequence, event, data))
            except RedisFull:
                return _full(await self._check(generation_id, epoch, sequence))
        except RedisAway:
            return Appended(AppendCode.AWAY)

    async def _append(
        self, generation_id: str, epoch: int, sequence: int, event: str, data: bytes
    ) -> list[bytes | int]:
        answer: list[bytes | int] = await self._calls.script(
            APPEND,
            [stream_key(generation_id), control_key(generation_id)],
            [channel(generation_id), epoch, sequence, event, data],
        )
        return answer

    async def _check(self, generation_id: str, epoch: int, sequence: int) -> Appended:
        keys = [stream_key(generation_id), control_key(generation_id)]
        return _appended(await self._calls.script(CHECK, keys, [epoch, sequence]))


def _appended(answer: list[bytes | int]) -> Appended:
    word = _text(answer[0])
    if word == "ORDER":
        raise StreamOrderBroken("this number of the epoch holds another entry")
    if len(answer) == 1:
        return Appended(AppendCode(word))
    _, missing, stop, age = answer
    return Appended(
        AppendCode(word),
        missing=missing == 1,
        stop=_reason(_text(stop)),
        reader_age_ms=None if not isinstance(age, int) or age < 0 else age,
    )


def _full(checked: Appended) -> Appended:
    if checked.code in (AppendCode.OK, AppendCode.STOP):
        return msgspec.structs.replace(checked, code=AppendCode.FULL, missing=False)
    return checked


def _reason(word: str) -> StopReason | None:
    if not word:
        return None
    try:
        return StopReason(word)
    except ValueError:  # written by a newer closer: a stop all the same
        return StopReason.UNKNOWN


def _text(value: bytes | int) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
