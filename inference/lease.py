"""Whether this worker may still write: decided from the age of its last acknowledged heartbeat.

Owns the self-fence as arithmetic. It sends no heartbeat and stops no engine; whoever asks does.
"""

from enum import IntEnum
from typing import Final

SUSPEND_S: Final = 8.0
LAPSE_S: Final = 10.0
"""The workers machine ends a lease after 10 s; a worker must never write longer than that."""


class LeaseState(IntEnum):
    """Grows with the danger that another worker computes the same epochs."""

    LIVE = 0  # go on
    SUSPENDED = 1  # append nothing more, keep the text
    LAPSED = 2  # abort the engine, keep the text, ask with Probe when the log is back


def lease_state(unacknowledged_s: float) -> LeaseState:
    """The state after that many seconds without an acknowledged heartbeat."""
    if unacknowledged_s >= LAPSE_S:
        return LeaseState.LAPSED
    if unacknowledged_s >= SUSPEND_S:
        return LeaseState.SUSPENDED
    return LeaseState.LIVE


class Lease:
    """Remembers the worst state of a silence until it was seen.

    A process that was stopped for a minute finds its first heartbeat acknowledged before anybody
    looked at the clock; so an acknowledgement looks first, and what it sees stays `worst`.
    Times are seconds of `elapsed_s`; a heartbeat counts from when it was sent, since the broker
    appended it no earlier.
    """

    def __init__(self, now_s: float) -> None:
        self._since_s = now_s
        self._worst = LeaseState.LIVE

    def age_s(self, now_s: float) -> float:
        """Seconds since the last acknowledged heartbeat was sent."""
        return now_s - self._since_s

    def state(self, now_s: float) -> LeaseState:
        """The state of this moment."""
        return lease_state(self.age_s(now_s))

    def acknowledged(self, sent_s: float, now_s: float) -> None:
        """A heartbeat sent at `sent_s` is in the log."""
        self._worst = max(self._worst, self.state(now_s))
        self._since_s = max(self._since_s, sent_s)

    def take_worst(self, now_s: float) -> LeaseState:
        """The worst state since the last call; each silence is told until it is over."""
        worst = max(self._worst, self.state(now_s))
        self._worst = LeaseState.LIVE
        return worst
