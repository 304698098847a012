"""The JSON of a stream's events: compact, valid UTF-8, safe for readers that split on any line end.

Owns the bytes of `text.delta` and `snapshot`. It knows no stream and no sequence.
"""

import re
from typing import Final

import msgspec

TEXT_DELTA: Final = "text.delta"
SNAPSHOT: Final = "snapshot"

# JSON escapes what is below U+0020 by itself; these three end a line for some readers as well.
# Each is a whole UTF-8 sequence, so it is found nowhere but in a string.
_LINE_ENDS: Final = re.compile(b"\xe2\x80[\xa8\xa9]|\xc2\x85")
_ESCAPED: Final = {
    b"\xe2\x80\xa8": b"\\u2028",
    b"\xe2\x80\xa9": b"\\u2029",
    b"\xc2\x85": b"\\u0085",
}


class _Delta(msgspec.Struct, frozen=True):
    index: int
    offset: int
    delta: str


class _Snapshot(msgspec.Struct, frozen=True):
    text: str


_ENCODER: Final = msgspec.json.Encoder()


def delta_json(offset: int, text: str) -> bytes:
    """New text that begins `offset` code points into the visible text."""
    return _escaped(_ENCODER.encode(_Delta(0, offset, text)))


def snapshot_json(text: str) -> bytes:
    """The whole visible text."""
    return _escaped(_ENCODER.encode(_Snapshot(text)))


def _escaped(raw: bytes) -> bytes:
    return _LINE_ENDS.sub(lambda found: _ESCAPED[found.group()], raw)
