"""What the clients of one cell saw, as a file: JSON lines, one a call, in the order in which calls ended.

The first line is a `Head`. Every other line is one `evidence.Seen`: who asked for what, when it began and
ended, and what came of it; bytes are base64. A call that was open when the file was closed stands in it
without a status. Owns the file and its bounds; judges nothing, and nothing of it is ever put on a topic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import msgspec

from ops.drill.evidence import Seen

VERSION: Final = 1
CALLS_MAX: Final = 50_000
BYTES_MAX: Final = 256 * 1_048_576
_SERVER_ERROR: Final = 500


class Outcome(StrEnum):
    """What a caller knows of its call."""

    OK = "ok"
    FAIL = "fail"  # a definite no: nothing came of it
    UNKNOWN = "unknown"  # it may have happened


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    cell: str
    seed: int
    began_ms: int
    version: int = VERSION


class Full(Exception):
    """The history reached its bound: the load was larger than a cell may be."""


def outcome(seen: Seen) -> Outcome:
    """No answer is no news, and neither is an error of the server's own; a refusal is a no."""
    if seen.status is None or seen.status >= _SERVER_ERROR:
        return Outcome.UNKNOWN
    return Outcome.OK if seen.status < 300 else Outcome.FAIL


class History:
    """One cell's file, open for its load. Of one loop; `close` or leave the `with` block at the end."""

    def __init__(
        self, path: Path, head: Head, now_ms: Callable[[], int], bytes_max: int = BYTES_MAX
    ) -> None:
        self._file = path.open("wb")
        self._now_ms = now_ms
        self._bytes_max = bytes_max
        self._numbers = itertools.count(1)
        self._open: dict[int, Seen] = {}
        self._bytes = 0
        self.calls = 0
        self.broken = 0
        """Calls whose connection failed or broke off, as their callers say."""
        self._write(head)

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def begin(self, seen: Seen) -> int:
        """A call begins. Returns its number, for `end`.

        Raises:
            Full: as many calls as a cell may hold were made.
        """
        if self.calls + len(self._open) >= CALLS_MAX:
            raise Full(f"{CALLS_MAX} calls in one cell")
        number = next(self._numbers)
        self._open[number] = seen
        return number

    def end(self, number: int, **known: Any) -> Seen:
        """The call ended now, and this is what came of it: fields of `Seen`. It is in the file then."""
        begun = self._open.pop(number)
        seen = msgspec.structs.replace(begun, ended_ms=self._now_ms(), **known)
        self._write(seen)
        self.calls += 1
        return seen

    @property
    def running(self) -> int:
        """Calls that have begun and not ended."""
        return len(self._open)

    def close(self) -> None:
        """Writes down what is still open, as unknown, and ends the file."""
        for number in list(self._open):
            self.end(number, status=None)
        self._file.close()

    def _write(self, line: msgspec.Struct) -> None:
        raw = msgspec.json.encode(line) + b"\n"
        self._bytes += len(raw)
        if self._bytes > self._bytes_max:
            raise Full(f"{self._bytes_max} bytes in one history")
        self._file.write(raw)
        self._file.flush()


def read(path: Path) -> tuple[Head, list[Seen]]:
    """A whole history.

    Raises:
        ValueError: it is of another version, or not a history.
    """
    with path.open("rb") as file:
        head = msgspec.json.decode(file.readline(), type=Head)
        if head.version != VERSION:
            raise ValueError(f"{path} is a history of version {head.version}, not {VERSION}")
        decoder = msgspec.json.Decoder(Seen)
        return head, [decoder.decode(line) for line in file]
