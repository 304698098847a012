"""Whether a machine that lives also moves. Pure: owns one clock per partition.

A consumer can be alive, a member of its group, and eat nothing. So what is judged is the outcome only: the
committed offset, which must move while there is something to read.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

STANDSTILL_S_MAX: Final = 60.0


class Standing(NamedTuple):
    """One partition of the inbox: the offset a restart would read, and what still waits behind it."""

    committed: int
    lag: int


class Watchdog:
    def __init__(self) -> None:
        self._since: dict[int, tuple[int, float]] = {}

    def look(self, now_s: float, standings: Mapping[int, Standing]) -> float:
        """Seconds for which the slowest partition has stood still under lag; 0 where all move."""
        since = {}
        for partition, (committed, lag) in standings.items():
            if lag > 0:
                before = self._since.get(partition, (committed, now_s))
                since[partition] = before if before[0] == committed else (committed, now_s)
        self._since = since
        return max((now_s - at_s for _, at_s in since.values()), default=0.0)
