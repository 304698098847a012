"""One answer in one piece, collected from the same events that a stream shows.

Owns the bounded text buffer. Knows no HTTP beyond the document it returns.
"""

from typing import Any

import msgspec

from connectors.redis.layout import Entry
from connectors.redis.shown import ShownText
from edge.errors import ApiError, ErrorCode
from edge.reader import Reader
from edge.stored import STATUS_OF_EVENT, document, failed


class End(msgspec.Struct, frozen=True):
    """What a terminal says."""

    event: str = ""
    code: str = ""
    partial: bool = False
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


_END = msgspec.json.Decoder(End)


class Collected:
    """The visible text so far, as any client would render it."""

    def __init__(self, bytes_max: int) -> None:
        self._shown = ShownText()
        self._bytes = 0
        self._bytes_max = bytes_max
        self.end: End | None = None
        self.overflowed = False

    @property
    def text(self) -> str:
        return self._shown.text

    def take(self, entry: Entry) -> None:
        """One more entry. Past the bound nothing is kept but the end."""
        if entry.terminal:
            self.end = msgspec.structs.replace(_END.decode(entry.data), event=entry.event)
        elif not self.overflowed:
            self._bytes += len(entry.data)
            self._shown.take(entry)
            if self._bytes > self._bytes_max:
                self._shown, self.overflowed = ShownText(), True


async def collect(reader: Reader, bytes_max: int) -> Collected:
    """Everything until the terminal; `end` is None where the reader was cut before it."""
    collected = Collected(bytes_max)
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
    end = collected.end
    if end.event == "error":
        raise failed(end.code, generation_id, end.partial)
    return document(
        generation_id,
        STATUS_OF_EVENT[end.event],
        model,
        collected.text,
        end.finish_reason,
        end.usage,
    )
