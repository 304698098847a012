"""For how long the log has been seen alive: `live_s`, which rule F1 puts into each `Due`.

Owns one number a partition. A stalled broker is nobody's death: a lease may end only after the shell's
own sends to that very partition were acknowledged for its whole length without a break. Sans I/O;
seconds of `elapsed_s`.
"""

from typing import Final

BEAT_S: Final = 1.0
"""How often a machine that judges silence sends into each partition it owns."""
BREAK_S: Final = 3.0
"""Longer without an acknowledgement, or for one: the log was away. Less than a lease minus a heartbeat,
so that no break that goes unseen can end a lease."""


class Liveness:
    """One partition's acknowledged sends."""

    def __init__(self) -> None:
        self._since_s: float | None = None
        self._last_s = 0.0

    def acknowledged(self, sent_s: float, now_s: float) -> None:
        """A send made at `sent_s` is in the log, as we learn at `now_s`."""
        if self._since_s is None or now_s - sent_s > BREAK_S or now_s - self._last_s > BREAK_S:
            self._since_s = now_s
        self._last_s = now_s

    def live_s(self, now_s: float) -> int:
        """Whole seconds without a break up to now; 0 where the last word is too old."""
        if self._since_s is None or now_s - self._last_s > BREAK_S:
            return 0
        return int(now_s - self._since_s)
