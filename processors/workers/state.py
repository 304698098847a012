"""One incarnation of a worker: its life and the leases it holds. Owns the shape; decides nothing.

unheard  an epoch was granted to it, no heartbeat came yet
live     its heartbeats come
dead     they stopped for a lease's length; a dead incarnation never lives again
left     it said goodbye
"""

from enum import IntEnum
from typing import Final

import msgspec

from topics.topic import HOUR_MS, SECOND_MS

LEASE_MS: Final = 10 * SECOND_MS
LIVE_S_MIN: Final = 10
"""A lease ends only when the log itself was seen alive for this long."""
RETAINED_MS: Final = HOUR_MS


class Life(IntEnum):
    """Written in states: a number is never given a second meaning."""

    UNHEARD = 0
    LIVE = 1
    DEAD = 2
    LEFT = 3


class Lease(msgspec.Struct, frozen=True, array_like=True):
    """The right to compute one epoch; `output_tokens` as the last heartbeat told."""

    epoch: int
    runs_key: str
    output_tokens: int = 0


class Worker(msgspec.Struct, frozen=True, array_like=True):
    """One incarnation. Times are append times, epoch milliseconds."""

    life: Life
    pool: str
    beat: int
    """Number of its last heartbeat."""
    check_at_ms: int
    """When it is dead unless something comes; for one that is over, when it is forgotten."""
    owned: dict[str, Lease] = {}
    """By generation id; told by runs, never by the worker."""

    @property
    def over(self) -> bool:
        return self.life in {Life.DEAD, Life.LEFT}
