"""One user's account: what was decided, what is held, what is spent. Owns the shape and its upkeep;
decides nothing and tells nobody.

A hold's life, once through: `held → consumed | released`. An admission is *active* from its decision to
its end and takes a slot all the while, so the slots in use are the active admissions, counted nowhere
else. Ended admissions and refusals stay for a day to answer repeats. Both maps grow at the end only, in
the order of time, so the oldest is the first and nothing has to be searched.

Hundreds of ended admissions fit under the state's cap because they are short: strings that are only
compared are kept as marks, and how an admission ended as one small integer.
"""

from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import islice
from typing import Final, TypeVar

import msgspec

from schemas.generated.types import Code, ReleaseReason, Terminal, Tier
from topics.topic import HOUR_MS

RETAINED_MS: Final = 24 * HOUR_MS
"""How long a repeat is recognised after the end; active admissions never expire."""
REFUSALS_MAX: Final = 64
REPLACED_MAX: Final = 16
IDENTITIES_MAX: Final = 500
"""Identities, active and past, that surely fit under the state's hard cap. Beyond them nothing is
admitted: an account that first met the cap at a `Settle` would lose a slot for ever."""

Key = TypeVar("Key")
Value = TypeVar("Value")


class Ending(IntEnum):
    """How an admission ended. Written in states: a number is never given a second meaning."""

    RELEASED = 0
    """Before its grant and not by its user: the key may be decided afresh."""
    CANCELLED_UNGRANTED = 1
    STOPPED_UNGRANTED = 2
    COMPLETED = 3
    CANCELLED = 4
    STOPPED = 5
    FAILED = 6
    MODERATED = 7
    UNKNOWN = 8


TERMINAL_OF_ENDING: Final = {
    Ending.RELEASED: Terminal.FAILED,
    Ending.CANCELLED_UNGRANTED: Terminal.CANCELLED,
    Ending.STOPPED_UNGRANTED: Terminal.STOPPED,
    Ending.COMPLETED: Terminal.COMPLETED,
    Ending.CANCELLED: Terminal.CANCELLED,
    Ending.STOPPED: Terminal.STOPPED,
    Ending.FAILED: Terminal.FAILED,
    Ending.MODERATED: Terminal.MODERATED,
    Ending.UNKNOWN: Terminal.UNKNOWN,
}
ENDING_OF_RELEASE: Final = {
    ReleaseReason.CANCELLED: Ending.CANCELLED_UNGRANTED,
    ReleaseReason.STOPPED: Ending.STOPPED_UNGRANTED,
}
"""Releases by the user's own will; every other one leaves the key unbound."""
ENDING_OF_TERMINAL: Final = {
    Terminal.COMPLETED: Ending.COMPLETED,
    Terminal.CANCELLED: Ending.CANCELLED,
    Terminal.STOPPED: Ending.STOPPED,
    Terminal.FAILED: Ending.FAILED,
    Terminal.MODERATED: Ending.MODERATED,
    Terminal.UNKNOWN: Ending.UNKNOWN,
}


class Counters(msgspec.Struct, frozen=True, array_like=True):
    """The account right after one decision, for the same answer to the same request."""

    at_ms: int
    window_start_ms: int
    used: int
    held: int
    slots_used: int


class Request(msgspec.Struct, frozen=True, array_like=True):
    """Who asked for what, and what was decided on it."""

    mark: bytes
    """Of the request id."""
    fingerprint: bytes
    counters: Counters


class Admission(msgspec.Struct, frozen=True, array_like=True):
    """An active one: its slot is taken, its hold is held or consumed."""

    identity: bytes
    request: Request
    tier: Tier
    consumed: bool


class Past(msgspec.Struct, frozen=True, array_like=True):
    """An ended one."""

    generation_id: str
    request: Request
    ending: Ending
    ended_at_ms: int


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """A refused request. It binds its request id; a `bound` one its identity as well."""

    identity: bytes
    fingerprint: bytes
    code: Code
    bound: bool
    counters: Counters


class Window(msgspec.Struct, frozen=True, array_like=True):
    """One quota window: messages spent and reserved, and when it ends."""

    used: int
    held: int
    end_ms: int


class Known(msgspec.Struct, frozen=True):
    """What the account knows of an identity; `ending` is None while it is active."""

    generation_id: str
    request: Request
    ending: Ending | None


class Account(msgspec.Struct, frozen=True, array_like=True):
    """One user's state. Fields are added at the end only, with defaults."""

    active: dict[str, Admission] = {}
    """By generation id, which is all that `Consume`, `Release` and `Settle` carry."""
    past: dict[bytes, Past] = {}
    """By identity, first ended first."""
    refusals: dict[bytes, Refusal] = {}
    """By mark of the request id, first refused first."""
    windows: dict[int, Window] = {}
    """By start, epoch milliseconds."""
    replaced: dict[bytes, Past] = {}
    """Admissions whose key was decided afresh since, by mark: a late repeat of one must not bring
    its ended generation back."""

    def find(self, identity: bytes) -> Known | None:
        """What holds this identity, active before past."""
        for generation_id, admission in self.active.items():
            if admission.identity == identity:
                return Known(generation_id, admission.request, None)
        past = self.past.get(identity)
        return None if past is None else Known(past.generation_id, past.request, past.ending)

    def bound_refusal(self, identity: bytes) -> Refusal | None:
        for refusal in self.refusals.values():
            if refusal.bound and refusal.identity == identity:
                return refusal
        return None

    def with_refusal(self, request_mark: bytes, refusal: Refusal) -> "Account":
        refusals = _bounded({**self.refusals, request_mark: refusal}, REFUSALS_MAX)
        return msgspec.structs.replace(self, refusals=refusals)

    def with_admission(
        self, generation_id: str, admission: Admission, start_ms: int, window: Window
    ) -> "Account":
        """The admission's own record replaces a past one of its identity."""
        active = {**self.active, generation_id: admission}
        past, replaced = self.past, self.replaced
        if admission.identity in past:
            past = {**past}
            old = past.pop(admission.identity)
            replaced = _bounded({**replaced, old.request.mark: old}, REPLACED_MAX)
        kept = _needed(self.windows, active, admission.request.counters.at_ms)
        windows = {**kept, start_ms: window}
        return Account(active, past, self.refusals, windows, replaced)

    def consumed(self, generation_id: str) -> "Account":
        """The active admission's hold is spent in the window it was taken from."""
        admission = self.active[generation_id]
        spent = msgspec.structs.replace(admission, consumed=True)
        return msgspec.structs.replace(
            self,
            active={**self.active, generation_id: spent},
            windows=self._moved(admission, held=-1, used=1),
        )

    def ended(self, generation_id: str, ending: Ending, now_ms: int) -> "Account":
        """The active admission ends: its slot is free, and a hold still held is given back."""
        admission = self.active[generation_id]
        active = {**self.active}
        del active[generation_id]
        past = Past(generation_id, admission.request, ending, now_ms)
        return msgspec.structs.replace(
            self,
            active=active,
            past={**self.past, admission.identity: past},
            windows=self.windows if admission.consumed else self._moved(admission, held=-1, used=0),
        )

    def expired(self, now_ms: int) -> "Account | None":
        """Without what nobody needs any more at `now_ms`; None where nothing is left."""
        past = _later(self.past, now_ms, lambda one: one.ended_at_ms)
        refusals = _later(self.refusals, now_ms, lambda one: one.counters.at_ms)
        replaced = _later(self.replaced, now_ms, lambda one: one.ended_at_ms)
        windows = _needed(self.windows, self.active, now_ms)
        if not (past or refusals or replaced or windows or self.active):
            return None
        return Account(self.active, past, refusals, windows, replaced)

    def next_deadline_ms(self) -> int | None:
        """When something expires next: a record, or at last the window."""
        firsts = [past.ended_at_ms for past in _first(self.past)]
        firsts += [refusal.counters.at_ms for refusal in _first(self.refusals)]
        firsts += [past.ended_at_ms for past in _first(self.replaced)]
        if firsts:
            return min(firsts) + RETAINED_MS
        if self.windows and not self.active:
            return max(window.end_ms for window in self.windows.values())
        return None

    def _moved(self, admission: Admission, held: int, used: int) -> dict[int, Window]:
        start_ms = admission.request.counters.window_start_ms
        window = self.windows[start_ms]
        moved = Window(window.used + used, window.held + held, window.end_ms)
        return {**self.windows, start_ms: moved}


def _needed(
    windows: dict[int, Window], active: dict[str, Admission], now_ms: int
) -> dict[int, Window]:
    """Windows still open, and old ones that an active admission was taken from."""
    referred = {admission.request.counters.window_start_ms for admission in active.values()}
    return {
        start_ms: window
        for start_ms, window in windows.items()
        if window.end_ms > now_ms or start_ms in referred
    }


def _bounded(records: dict[Key, Value], most: int) -> dict[Key, Value]:
    """The records, a fresh dict, without the oldest where they are one too many."""
    if len(records) > most:
        del records[next(iter(records))]
    return records


def _first(records: dict[Key, Value]) -> Iterator[Value]:
    """The oldest record, if any."""
    return islice(records.values(), 1)


def _later(
    records: dict[Key, Value], now_ms: int, at_ms: Callable[[Value], int]
) -> dict[Key, Value]:
    """The records still retained at `now_ms`; the oldest are first, so only they are looked at."""
    over = 0
    for record in records.values():
        if at_ms(record) + RETAINED_MS > now_ms:
            break
        over += 1
    return dict(islice(records.items(), over, None)) if over else records
