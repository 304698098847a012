"""From record times to a table of hops. Pure: takes times, gives milliseconds.

Record times are whole milliseconds of the broker's append, so a single hop is known to ±1 ms; the sum is
known better, since its ends are the client's own clock.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ops.bench.client import Timed

HOPS: Final = (
    ("edge", "client's POST → Submit appended"),
    ("accounts", "Submit → Start appended"),
    ("runs", "Start → step request appended"),
    ("worker", "step request → Claim appended"),
    ("grant", "Claim → Granted appended"),
    ("first chunk", "Granted → first text at the client"),
)


class Marks(msgspec.Struct, frozen=True):
    """Append times of one generation's records, epoch milliseconds."""

    submit_ms: int
    start_ms: int
    step_ms: int
    claim_ms: int
    granted_ms: int


class Row(msgspec.Struct, frozen=True):
    """One hop over a level's streams, milliseconds."""

    hop: str
    what: str
    p50_ms: float
    p95_ms: float
    p99_ms: float


def spans(timed: Timed, marks: Marks) -> tuple[float, ...]:
    """Milliseconds of each hop of one generation, in the order of HOPS; they add up to the whole."""
    at = (
        timed.posted_ms,
        marks.submit_ms,
        marks.start_ms,
        marks.step_ms,
        marks.claim_ms,
        marks.granted_ms,
        timed.first_text_ms,
    )
    return tuple(after - before for before, after in itertools.pairwise(at))


def table(answers: Iterable[Timed], marks: Mapping[str, Marks]) -> list[Row]:
    """One row a hop and one for the whole, over all answers whose records were found."""
    known = [
        (timed, marks[timed.generation_id]) for timed in answers if timed.generation_id in marks
    ]
    if not known:
        raise ValueError("no generation of this level was found in the log")
    columns = list(zip(*(spans(timed, mark) for timed, mark in known), strict=True))
    rows = [_row(hop, what, values) for (hop, what), values in zip(HOPS, columns, strict=True)]
    whole = [timed.first_text_ms - timed.posted_ms for timed, _ in known]
    return [*rows, _row("sum", "the client's own clock, POST → first text", whole)]


def _row(hop: str, what: str, values: Iterable[float]) -> Row:
    ordered = sorted(values)
    return Row(hop, what, *(round(quantile(ordered, share), 2) for share in (0.5, 0.95, 0.99)))


def quantile(ordered: list[float], share: float) -> float:
    """The share's quantile of ordered values, interpolated."""
    if len(ordered) == 1:
        return ordered[0]
    return statistics.quantiles(ordered, n=1_000, method="inclusive")[round(share * 1_000) - 1]
