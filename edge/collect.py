"""One answer in one piece, collected from the same events that a stream shows.

Owns the bounded text buffer. Knows no HTTP beyond the document it returns.
"""

from typing import Any

import msgspec

from connectors.redis.layout import Entry
from edge.errors import ApiError, ErrorCode
from edge.reader import Reader
from edge.stored import STATUS_OF_EVENT, document, failed


class _Data(msgspec.Struct):
    """What any event of a stream may carry."""

    offset: int = 0
    delta: str = ""
    text: str = ""
    code: str = ""
    partial: bool = False
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


_DATA = msgspec.json.Decoder(_Data)


class Collected:
    """The visible text so far, as any client would render it; offsets count code points."""

    def __init__(self, chars_max: int) -> None:
        self._parts: list[str] = []
        self._chars_max = chars_max
        self._length = 0
        self.end: tuple[str, _Data] | None = None
        self.overflowed = False

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def take(self, entry: Entry) -> None:
        data = _DATA.decode(entry.data)
        if entry.terminal:
            self.end = (entry.event, data)
        elif self.overflowed:
            return
        elif entry.event == "text.delta":
            if data.offset < self._length:
                self._replace(self.text[: data.offset])
            self._add(data.delta)
        elif entry.event == "snapshot":
            self._replace(data.text)
        elif entry.event == "reset":
            self._replace(self.text[: data.offset])
        elif entry.event == "retract":
            self._replace("")

    def _replace(self, text: str) -> None:
        self._parts, self._length = [], 0
        self._add(text)

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)
        self._length += len(text)
        if self._length > self._chars_max:
            self._parts, self.overflowed = [], True


async def collect(reader: Reader, chars_max: int) -> Collected:
    """Everything until the terminal; `end` is None where the reader was cut before it."""
    collected = Collected(chars_max)
    while items := await reader.next():
        for entry, _ in items:
            if entry is not None:
                collected.take(entry)
    return collected


def collected_document(collected: Collected, generation_id: str, model: str) -> dict[str, Any]:
    """
    Raises:
        ApiError: the generation failed, or did not end in time.
    """
    if collected.end is None:
        raise ApiError(
            ErrorCode.GENERATION_TIMEOUT,
            "The answer is not complete in time; read it by its generation id.",
            details={"generation_id": generation_id},
        )
    event, data = collected.end
    if event == "error":
        raise failed(data.code, generation_id, data.partial)
    return document(
        generation_id,
        STATUS_OF_EVENT[event],
        model,
        collected.text,
        data.finish_reason,
        data.usage,
    )
