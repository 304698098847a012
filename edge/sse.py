"""Server-sent events: bytes of frames, and the id a client resumes with. Pure, no I/O.

Owns framing. A frame holds none of the characters that a sloppy reader might split at: they are
escaped inside the JSON. Never decodes the data it carries.
"""

import re
from typing import Final

from connectors.redis.layout import EntryId

KEEP_ALIVE: Final = b": keep-alive\n\n"
ENDED: Final = b": ended\n\n"
BEFORE_ALL: Final[EntryId] = (0, 0)

_UNSAFE: Final = re.compile(rb"[\x00-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]")
_ID: Final = re.compile(rb"([1-9][0-9]{0,8})-([1-9][0-9]{0,14})")


def _escape(found: re.Match[bytes]) -> bytes:
    mark = found[0]
    # Outside of strings JSON has only blanks here; inside, raw control bytes are no JSON at all.
    return b" " if mark in b"\t\r\n" else b"\\u%04x" % ord(mark.decode("utf-8"))


def safe(data: bytes) -> bytes:
    """Compact JSON without any raw character that some reader takes for the end of a line."""
    return _UNSAFE.sub(_escape, data) if _UNSAFE.search(data) else data


class Framer:
    """Frames of one generation; its id is in every one."""

    __slots__ = ("_data",)

    def __init__(self, generation_id: str) -> None:
        self._data = b'\ndata: {"generation_id":"%s","sequence":' % generation_id.encode()

    def entry(self, epoch: int, sequence: int, event: str, data: bytes) -> bytes:
        """A frame of the log, with the id that a reader resumes after. `data` is a JSON object."""
        return b"id: %d-%d\nevent: generation.%s%s%d%s\n\n" % (
            epoch,
            sequence,
            event.encode(),
            self._data,
            sequence,
            _rest(data),
        )

    def own(self, sequence: int, event: str, data: bytes) -> bytes:
        """A frame made by the edge: no id line, the last sequence again."""
        return b"event: generation.%s%s%d%s\n\n" % (
            event.encode(),
            self._data,
            sequence,
            _rest(data),
        )


def _rest(data: bytes) -> bytes:
    """What follows the sequence number: a comma and the members, or the end of the object."""
    data = safe(data).strip()
    members = data[1:].lstrip()
    return members if members == b"}" else b"," + members


def parse_last_event_id(values: list[bytes]) -> EntryId | None:
    """(epoch, sequence) of an id of ours, or None for anything else, however long."""
    if len(values) != 1 or len(values[0]) > 32:
        return None
    found = _ID.fullmatch(values[0].strip())
    return None if found is None else (int(found[1]), int(found[2]))
