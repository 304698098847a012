"""The runs of one key: what is in flight, what ended, what is closed. Owns the shape, its upkeep and the
table of transitions; decides nothing and tells nobody.

    unknown  --Start--------> queued     within 5 s of its Submit
    queued   --Claim--------> running    the grant: compute starts
    queued   --Claim--------> ended      past the queue deadline
    queued   --Stop---------> ended
    queued   --Due----------> ended      queue deadline
    running  --Stop---------> stopping
    running  --Due----------> stopping   run deadline
    running  --Finished-----> ended
    running  --LeaseExpired-> ended
    stopping --Finished-----> ended
    stopping --LeaseExpired-> ended
    stopping --Due----------> ended      stop deadline: ended without the worker
    ended    --Closed-------> closed     the closer appended the terminal
    closed   --Due----------> unknown    24 h after its end
    closed   --Closed-------> unknown    as the oldest of too many, when another one closes

Any other event leaves the phase as it is. Maps grow at the end only, so the oldest is the first.
"""

from typing import Final

import msgspec

from schemas.generated.types import (
    Api,
    Code,
    FinishReason,
    Hold,
    Phase,
    Spec,
    StopReason,
    Terminal,
    Tier,
    Usage,
)
from topics.topic import HOUR_MS, MINUTE_MS, SECOND_MS

EPOCH_FIRST: Final = 1
EPOCHS_MAX: Final = 100
"""Past this epoch a run ends as an error: rows of epochs are told apart by eight numbers each."""
STOP_WAIT_MS: Final = 5 * SECOND_MS
"""How long a worker may take to confirm a stop before the run is ended without it."""
CLOSE_WAIT_MS_FIRST: Final = 2 * SECOND_MS
CLOSE_WAIT_MS_MAX: Final = MINUTE_MS
RETAINED_MS: Final = 24 * HOUR_MS
CLOSED_MAX: Final = 256
OPEN_MAX: Final = 8
"""Runs of one key that are not closed yet. With `CLOSED_MAX` it keeps the state under its hard cap,
so that no event that ends a run is ever refused for size."""
HEARD_MAX: Final = 4

TRANSITIONS: Final = frozenset(
    {
        (Phase.UNKNOWN, "Start", Phase.QUEUED),
        (Phase.QUEUED, "Claim", Phase.RUNNING),
        (Phase.QUEUED, "Claim", Phase.ENDED),
        (Phase.QUEUED, "Stop", Phase.ENDED),
        (Phase.QUEUED, "Due", Phase.ENDED),
        (Phase.RUNNING, "Stop", Phase.STOPPING),
        (Phase.RUNNING, "Due", Phase.STOPPING),
        (Phase.RUNNING, "Finished", Phase.ENDED),
        (Phase.RUNNING, "LeaseExpired", Phase.ENDED),
        (Phase.STOPPING, "Finished", Phase.ENDED),
        (Phase.STOPPING, "LeaseExpired", Phase.ENDED),
        (Phase.STOPPING, "Due", Phase.ENDED),
        (Phase.ENDED, "Closed", Phase.CLOSED),
        (Phase.CLOSED, "Due", Phase.UNKNOWN),
        (Phase.CLOSED, "Closed", Phase.UNKNOWN),
    }
)
"""The table above as data; unknown is a generation not in the state."""


class Origin(msgspec.Struct, frozen=True, array_like=True):
    """Whose run it is and what serves it: what facts and usage tell of every run."""

    user_id: str
    tier: Tier
    api: Api
    model: str
    model_version: str
    pool: str
    conversation_id: str | None


class Tokens(msgspec.Struct, frozen=True, array_like=True):
    """A `Usage` in few bytes."""

    input: int
    cached: int
    output: int
    estimated: bool

    @property
    def usage(self) -> Usage:
        return Usage(
            input_tokens=self.input,
            cached_input_tokens=self.cached,
            output_tokens=self.output,
            estimated=self.estimated,
        )


def tokens_of(usage: Usage) -> Tokens:
    return Tokens(
        usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.estimated
    )


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A run in flight: queued, running or stopping. Times are append times, epoch milliseconds."""

    request: bytes
    """Mark of the request id."""
    user_id: str
    spec: Spec
    admitted_at_ms: int
    phase: Phase = Phase.QUEUED
    epoch: int = EPOCH_FIRST
    number: int = 0
    """Of the last control record."""
    owner: str | None = None
    granted_at_ms: int = 0
    stop: StopReason | None = None
    stop_at_ms: int = 0
    heard: tuple[bytes, ...] = ()
    """Marks of the epoch and incarnation of every `Finished` that metering was told of."""

    @property
    def origin(self) -> Origin:
        spec = self.spec
        return Origin(
            self.user_id,
            spec.tier,
            spec.api,
            spec.model,
            spec.model_version,
            spec.pool,
            spec.conversation_id,
        )

    @property
    def queue_deadline_ms(self) -> int:
        return self.admitted_at_ms + self.spec.queue_wait_ms_max

    @property
    def run_deadline_ms(self) -> int:
        return self.granted_at_ms + self.spec.run_ms_max

    @property
    def deadline_ms(self) -> int:
        """The deadline of the phase it is in."""
        if self.phase is Phase.QUEUED:
            return self.queue_deadline_ms
        if self.phase is Phase.RUNNING:
            return self.run_deadline_ms
        return self.stop_at_ms + STOP_WAIT_MS


class PastRun(msgspec.Struct, frozen=True, array_like=True):
    """A run that ended: what `Ended`, `Status` and a repeat need, and no more."""

    request: bytes
    origin: Origin
    admitted_at_ms: int
    granted_at_ms: int
    ended_at_ms: int
    epoch: int
    number: int
    terminal: Terminal
    code: Code | None
    finish_reason: FinishReason | None
    tokens: Tokens
    keep_row: bool
    heard: tuple[bytes, ...]
    close_by_ms: int = 0
    """When `Ended` is said again; 0 once closed."""
    close_wait_ms: int = 0

    @property
    def granted(self) -> bool:
        return self.granted_at_ms > 0

    @property
    def hold(self) -> Hold:
        return Hold.CONSUMED if self.granted else Hold.RELEASED


class Runs(msgspec.Struct, frozen=True, array_like=True):
    """All runs of one key, by generation id. Fields are added at the end only, with defaults."""

    active: dict[str, Run] = {}
    ended: dict[str, PastRun] = {}
    closed: dict[str, PastRun] = {}

    def past(self, generation_id: str) -> PastRun | None:
        return self.ended.get(generation_id) or self.closed.get(generation_id)

    def phase(self, generation_id: str) -> Phase:
        """Where the generation is; UNKNOWN where it is not known (any more)."""
        if (run := self.active.get(generation_id)) is not None:
            return run.phase
        if generation_id in self.ended:
            return Phase.ENDED
        return Phase.CLOSED if generation_id in self.closed else Phase.UNKNOWN

    @property
    def full(self) -> bool:
        return len(self.active) + len(self.ended) >= OPEN_MAX

    def with_run(self, run: Run) -> "Runs":
        active = {**self.active, run.spec.generation_id: run}
        return msgspec.structs.replace(self, active=active)

    def with_past(self, generation_id: str, past: PastRun) -> "Runs":
        """Replaces a past run where it is: the order of the maps stays."""
        if generation_id in self.ended:
            return msgspec.structs.replace(self, ended={**self.ended, generation_id: past})
        return msgspec.structs.replace(self, closed={**self.closed, generation_id: past})

    def with_ended(self, generation_id: str, past: PastRun) -> "Runs":
        active = {**self.active}
        del active[generation_id]
        return Runs(active, {**self.ended, generation_id: past}, self.closed)

    def with_closed(self, generation_id: str) -> "Runs":
        """The ended run is closed and shrinks; the oldest closed one beyond the bound leaves."""
        ended = {**self.ended}
        past = msgspec.structs.replace(
            ended.pop(generation_id), finish_reason=None, close_by_ms=0, close_wait_ms=0
        )
        closed = {**self.closed, generation_id: past}
        if len(closed) > CLOSED_MAX:
            del closed[next(iter(closed))]
        return Runs(self.active, ended, closed)

    def expired(self, now_ms: int) -> "Runs":
        """Without the closed runs whose retention is over at `now_ms`."""
        closed = {**self.closed}
        for generation_id, past in self.closed.items():
            if past.ended_at_ms + RETAINED_MS > now_ms:
                break
            del closed[generation_id]
        return msgspec.structs.replace(self, closed=closed)

    def or_none(self) -> "Runs | None":
        return self if self.active or self.ended or self.closed else None

    def next_deadline_ms(self) -> int | None:
        """The earliest of all deadlines, of saying `Ended` again, and of the oldest retention."""
        wanted = [run.deadline_ms for run in self.active.values()]
        wanted += [past.close_by_ms for past in self.ended.values()]
        for past in self.closed.values():
            wanted.append(past.ended_at_ms + RETAINED_MS)
            break
        return min(wanted, default=None)
