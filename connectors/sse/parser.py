"""Reads `text/event-stream` bytes as the WHATWG text says, without I/O.

Owns the framing: line ends CR, LF and CRLF, a leading byte order mark, chunks split at any byte.
Never reconnects, and knows nothing of what an event means.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

EVENT_BYTES_MAX: Final = 8 * 1_048_576
_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"[\r\n]")
_CR: Final = 0x0D
_LF: Final = 0x0A


class TooLarge(Exception):
    """One event grew past the bound: the peer is not to be trusted with more memory."""


class Event(msgspec.Struct, frozen=True):
    """One dispatched event. `id` is the last id seen, on this event or before it."""

    event: str
    data: str
    id: str


class Parser:
    """Fed with chunks as they come. An event is given out at its blank line, never later."""

    def __init__(self, last_event_id: str = "", event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self.last_event_id = last_event_id
        self.retry_ms: int | None = None
        self._bytes_max = event_bytes_max
        self._line = bytearray()
        self._held_bytes = 0
        self._first = True
        self._after_cr = False
        self._event = ""
        self._data: list[str] = []
        self._id = last_event_id

    def feed(self, chunk: bytes) -> list[Event]:
        """The events completed by this chunk. What is incomplete at the end of a stream is void.

        Raises:
            TooLarge: one event holds more than `event_bytes_max` bytes.
        """
        events: list[Event] = []
        start = 0
        if self._after_cr and chunk:
            self._after_cr = False
            start = 1 if chunk[0] == _LF else 0
        while found := _LINE_END.search(chunk, start):
            end = found.start()
            self._hold(chunk[start:end])
            self._take_line(events)
            start = end + 1
            if chunk[end] == _CR:
                if start == len(chunk):
                    self._after_cr = True
                elif chunk[start] == _LF:
                    start += 1
        self._hold(chunk[start:])
        return events

    def _hold(self, part: bytes) -> None:
        self._held_bytes += len(part)
        if self._held_bytes > self._bytes_max:
            raise TooLarge(f"an event is larger than {self._bytes_max} bytes")
        self._line += part

    def _take_line(self, events: list[Event]) -> None:
        raw = bytes(self._line)
        self._line.clear()
        if self._first:
            self._first = False
            raw = raw.removeprefix(_BOM)
        if not raw:
            self._dispatch(events)
            return
        name, colon, value = raw.decode("utf-8", "replace").partition(":")
        if name or not colon:  # a line that begins with a colon is a comment
            self._field(name, value.removeprefix(" "))

    def _field(self, name: str, value: str) -> None:
        match name:
            case "data":
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdigit():
                self.retry_ms = int(value)
            case _:
                pass

    def _dispatch(self, events: list[Event]) -> None:
        self._held_bytes = 0
        self.last_event_id = self._id
        if self._data:
            data = "\n".join(self._data)
            events.append(Event(self._event or "message", data, self._id))
        self._event = ""
        self._data = []
