"""Finds one request, or its reply, in a Kafka connection, and does something at that very moment. Sans-I/O.

Owns the framing (four bytes of length; api key and correlation id) and the traps. Knows of a request only
its api key and whether some bytes occur in it: a topic's name, a group's, a client's.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final

from ops.drill.proxy import Passing, Way

PRODUCE: Final = 0
OFFSET_COMMIT: Final = 8
FRAME_BYTES_MAX: Final = 128 * 1_048_576
_LENGTH: Final = struct.Struct(">i")
_HEAD: Final = struct.Struct(">hhi")


class Moment(Enum):
    """When a trap closes."""

    BEFORE_REQUEST = "before request"
    """The request is not forwarded."""
    AFTER_REQUEST = "after request"
    BEFORE_REPLY = "before reply"
    """The server did it, and its reply is swallowed."""
    AFTER_REPLY = "after reply"


class Trap:
    """Waits for a request. `act` runs at the moment, on the proxy's loop; a request or reply that is kept
    back takes its connection with it. Closes `times` times."""

    def __init__(
        self,
        api_key: int,
        needles: tuple[bytes, ...],
        moment: Moment,
        act: Callable[[], None] = lambda: None,
        times: int = 1,
    ) -> None:
        self.api_key = api_key
        self.needles = needles
        self.moment = moment
        self.act = act
        self.left = times
        self.closed = 0

    def wants(self, api_key: int, frame: bytes) -> bool:
        if self.left <= 0 or api_key != self.api_key:
            return False
        return all(needle in frame for needle in self.needles)

    def close(self) -> None:
        self.left -= 1
        self.closed += 1


class Traps:
    """The traps that are set, for all connections of a proxy."""

    def __init__(self) -> None:
        self._set: list[Trap] = []

    def set(self, trap: Trap) -> None:
        self._set.append(trap)

    def clear(self) -> None:
        self._set.clear()

    def wanting(self, api_key: int, frame: bytes) -> Trap | None:
        return next((trap for trap in self._set if trap.wants(api_key, frame)), None)

    def tap(self) -> KafkaTap:
        return KafkaTap(self)


class Broken(Exception):
    """This is not Kafka's framing."""


class KafkaTap:
    """One connection. Whole frames pass; half of one waits for the rest."""

    def __init__(self, traps: Traps) -> None:
        self._traps = traps
        self._held = {way: bytearray() for way in Way}
        self._caught: dict[int, Trap] = {}
        """Correlation id -> the trap that waits for its reply."""
        self._then: Callable[[], None] | None = None

    def passes(self, way: Way, data: bytes) -> Passing:
        """
        Raises:
            Broken: no frame can be this long.
        """
        held = self._held[way]
        held += data
        forward = bytearray()
        while (frame := _first(held)) is not None:
            del held[: len(frame)]
            cut = self._asked(frame) if way is Way.UP else self._answered(frame)
            if cut:
                return Passing(bytes(forward), cut=True)
            forward += frame
        return Passing(bytes(forward))

    def passed(self) -> None:
        if self._then is not None:
            act, self._then = self._then, None
            act()

    def _asked(self, frame: bytes) -> bool:
        api_key, _, correlation = _HEAD.unpack_from(frame, _LENGTH.size)
        trap = self._traps.wanting(api_key, frame)
        if trap is None:
            return False
        match trap.moment:
            case Moment.BEFORE_REQUEST:
                trap.close()
                trap.act()
                return True
            case Moment.AFTER_REQUEST:
                trap.close()
                self._then = trap.act
            case _:
                trap.left -= 1
                self._caught[correlation] = trap
        return False

    def _answered(self, frame: bytes) -> bool:
        (correlation,) = _LENGTH.unpack_from(frame, _LENGTH.size)
        trap = self._caught.pop(correlation, None)
        if trap is None:
            return False
        trap.closed += 1
        if trap.moment is Moment.BEFORE_REPLY:
            trap.act()
            return True
        self._then = trap.act
        return False


def _first(held: bytearray) -> bytes | None:
    """The first whole frame, its length included."""
    if len(held) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(held)
    if not 0 <= length <= FRAME_BYTES_MAX:
        raise Broken(f"a frame of {length} bytes")
    end = _LENGTH.size + length
    return bytes(held[:end]) if len(held) >= end else None
