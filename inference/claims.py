"""Claims on their way: what was asked, when to ask again, what was answered before.

Owns the state between reading a request and the answer of the runs machine. Sans I/O: time comes
in, the caller sends. It never decides who may compute; only a `Granted` does.
"""

from collections import OrderedDict
from enum import StrEnum
from typing import Final

from inference.scheduler import Request

Key = tuple[str, int]
"""Generation id and epoch."""

RETRY_S_MAX: Final = 2.0
"""Repeats slow down to this: a claim that is in the log is answered however late runs comes."""

STALE_S: Final = 2.0
"""A claim this old keeps no slot free any more: its partition of runs is away, others are not."""


class Proposal(StrEnum):
    """What to do with a request that was read."""

    CLAIM = "claim"  # not seen before: send a claim
    JOINED = "joined"  # the same epoch is claimed already; its answer answers both
    KNOWN = "known"  # answered before: nothing to do but to note the offset


class Pending:
    """One claim without an answer. Times are seconds of `elapsed_s`."""

    __slots__ = ("first_at_s", "key", "next_at_s", "requests", "retry_s", "stale")

    def __init__(self, request: Request, now_s: float, retry_s: float) -> None:
        self.key: Key = request.key
        self.requests = [request]
        self.first_at_s = now_s
        self.retry_s = retry_s
        self.next_at_s = now_s + retry_s
        self.stale = False

    @property
    def request(self) -> Request:
        return self.requests[0]


class Claims:
    """All claims of one worker. Remembers the last `answered_max` answered epochs."""

    def __init__(self, retry_s: float, answered_max: int = 16_384) -> None:
        self._retry_s = retry_s
        self._answered_max = answered_max
        self._pending: dict[Key, Pending] = {}
        self._answered: OrderedDict[Key, None] = OrderedDict()
        self._stale = 0

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def holding(self) -> int:
        """Claims for which a slot must be kept free: they may be granted any moment."""
        return len(self._pending) - self._stale

    def of(self, key: Key) -> Pending:
        """The claim that waits for an answer. Raises KeyError where none does."""
        return self._pending[key]

    def all(self) -> list[Pending]:
        """Every claim that waits for an answer, oldest first."""
        return list(self._pending.values())

    def propose(self, request: Request, now_s: float) -> Proposal:
        """Decides about a request; on CLAIM it counts as sent now."""
        key = request.key
        if key in self._answered:
            return Proposal.KNOWN
        pending = self._pending.get(key)
        if pending is not None:
            pending.requests.append(request)
            return Proposal.JOINED
        self._pending[key] = Pending(request, now_s, self._retry_s)
        return Proposal.CLAIM

    def overdue(self, now_s: float) -> list[Pending]:
        """Claims to send again now; each counts as sent."""
        due = [pending for pending in self._pending.values() if pending.next_at_s <= now_s]
        for pending in due:
            pending.next_at_s = now_s + pending.retry_s
            pending.retry_s = min(2 * pending.retry_s, RETRY_S_MAX)
            if not pending.stale and now_s - pending.first_at_s >= STALE_S:
                pending.stale = True
                self._stale += 1
        return due

    def answered(self, key: Key) -> Pending | None:
        """Takes the claim out; None where none waits (a repeated answer)."""
        pending = self._pending.pop(key, None)
        if pending is not None:
            self._stale -= pending.stale
            self._answered[key] = None
            while len(self._answered) > self._answered_max:
                self._answered.popitem(last=False)
        return pending
