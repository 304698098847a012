"""The self-fence: whether this process may still act for the partitions it was given. Pure.

Owns one judgement. A member whose heartbeats stay unanswered for a session is taken for dead and its
partitions go to another; it may have been asleep and not know. So from 0.8 of the session timeout on,
counted from the moment the last answered heartbeat was *sent*, it neither folds nor sends. The clock must
go on while the process is stopped (CLOCK_BOOTTIME).
"""

from typing import Final

SHARE: Final = 0.8
"""Of the session timeout: the rest is for what is on its way to the broker already."""


class Fence:
    """Open from an assignment to its revocation, while the group is heard."""

    def __init__(self, session_s: float) -> None:
        self._silence_s_max = SHARE * session_s
        self._heard_s = 0.0
        self._held = False
        self._lost = False

    def assigned(self, sent_s: float) -> None:
        """The group gave partitions in answer to what was sent at `sent_s`."""
        self._heard_s = sent_s
        self._held = True

    def beat(self, sent_s: float) -> None:
        """The group answered the heartbeat sent at `sent_s`."""
        self._heard_s = max(self._heard_s, sent_s)

    def revoked(self) -> None:
        """Nothing is held until the next assignment."""
        self._held = False

    def lost(self) -> None:
        """The group no longer knows this member: others may hold what it held. There is no way back."""
        self._lost = True

    def holds(self, now_s: float) -> bool:
        """True while folds and sends are allowed."""
        return self._held and not self.broken(now_s)

    def broken(self, now_s: float) -> bool:
        """True where what is held on paper may be another's: the process must end."""
        return self._held and (self._lost or now_s - self._heard_s > self._silence_s_max)
