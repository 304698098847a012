"""Whether one epoch may write: cleared, suspended until runs says so, or fenced for good.

Owns the state and the pace of the questions. Sans I/O: it sends no Probe, it says when.
"""

from typing import Final

PROBE_EVERY_S: Final = 1.0


class Clearance:
    """Begins cleared, or suspended where the lease was not live at the grant."""

    def __init__(self, suspended: bool) -> None:
        self._suspended = suspended
        self._fenced = False
        self._probe_due_s = 0.0

    @property
    def cleared(self) -> bool:
        """True where text may be appended, the row written and the end told."""
        return not (self._suspended or self._fenced)

    @property
    def fenced(self) -> bool:
        return self._fenced

    def suspend(self) -> None:
        """The lease is in doubt: only `current` or `fence` ends that."""
        self._suspended = True

    def current(self) -> None:
        """runs says that the epoch is current."""
        self._suspended = False

    def fence(self) -> None:
        """The epoch is over; nothing takes this back."""
        self._fenced = True

    def probe_due(self, now_s: float, live: bool) -> bool:
        """True where runs must be asked now; counts as asked. `live`: the log answers again."""
        if self.fenced or not (self._suspended and live) or now_s < self._probe_due_s:
            return False
        self._probe_due_s = now_s + PROBE_EVERY_S
        return True
