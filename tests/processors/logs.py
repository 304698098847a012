"""Hypothesis strategies for logs of one key. Owns the universe of events; knows no law.

Append times never fall, as the shell guarantees. Few identities meet many events, so that repeats,
conflicts and lost races are the rule. A universe is a plain list, what is often in it is drawn often: a
log costs two draws an event.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final

from hypothesis import strategies as st

from processors.machine import Event
from schemas.generated.types import FinishReason, Left, ReleaseReason, StopReason, Terminal, Tier
from tests.processors.events import (
    claim,
    closed,
    consume,
    due,
    finished,
    freed,
    heartbeat,
    lease_expired,
    owned,
    probe,
    query,
    release,
    settle,
    start,
    stop,
    submit,
    used,
)
from tests.processors.story import T0_MS

SECOND_MS: Final = 1_000
HOUR_MS: Final = 3_600 * SECOND_MS
BRISK_MS: Final = (0, 1, 30, 400, 2 * SECOND_MS)
SHORT_MS: Final = (*BRISK_MS * 3, 20 * SECOND_MS)
"""Gaps within the retention."""
LONG_MS: Final = (
    *BRISK_MS * 3,
    10 * SECOND_MS,
    20 * SECOND_MS,
    700 * SECOND_MS,
    2 * HOUR_MS,
    25 * HOUR_MS,
)
"""Gaps over every deadline there is."""
LENGTH_MAX: Final = 40

Logs = st.SearchStrategy[list[Event]]
Universe = Sequence[Any]
"""Bodies, or functions of the append time that make one."""
restarts: Final = st.lists(
    st.tuples(st.integers(0, LENGTH_MAX), st.integers(0, 8), st.integers(0, 5)), max_size=4
)


def account_logs(gaps_ms: tuple[int, ...] = LONG_MS) -> Logs:
    """Logs of one account: requests, their effects in any order, repeats, deadlines."""
    return _logs("usr_1", _account_universe(), gaps_ms)


def run_logs(gaps_ms: tuple[int, ...] = LONG_MS) -> Logs:
    """Logs of one key's runs: two generations, two workers, every event at any time."""
    return _logs("run_1", _run_universe(), gaps_ms)


def worker_logs(gaps_ms: tuple[int, ...] = LONG_MS) -> Logs:
    """Logs of one incarnation: heartbeats, grants, ends, silences, a log that was away."""
    return _logs("w1", _worker_universe(), gaps_ms)


def metering_logs() -> Logs:
    """Logs of one generation's usage."""
    universe = [used(epoch, who) for epoch in (1, 2) for who in ("w1", "w2")]
    universe += [used(1, output=0), used(1, void=True)]
    return _logs("g-a", [*universe, due()], LONG_MS)


def _worker_universe() -> Universe:
    universe: list[Any] = [heartbeat(beat, ("r0", 1, 10 * beat)) for beat in range(6)]
    for name in ("r0", "r1", "r2"):
        universe += [owned(name), owned(name), owned(name, 2), freed(name), freed(name, 2)]
    return [*universe, Left(beat=9), *[due()] * 3, due(live_s=4), due(live_s=9)]


def _account_universe() -> Universe:
    universe: list[Any] = []
    for number in range(7):
        # Four keys for seven requests; some ask for something else under their key, some by
        # another tier.
        content = "other" if number % 5 == 4 else "same"
        tier = Tier.PAID if number % 3 == 2 else Tier.FREE
        name = f"r{number}"
        universe += [submit(name, f"k{number % 4}", content=content, tier=tier)] * 4
        universe += [consume(name), release(name), release(name, ReleaseReason.CANCELLED)]
        universe += [settle(name), settle(name, Terminal.FAILED)]
    return [*universe, *[due()] * 4, *[query()] * 3]


def _run_universe() -> Universe:
    universe: list[Any] = []
    for name in ("r0", "r1"):
        universe += [_start(name, 0)] * 5 + [_start(name, 20), _start(name, 6_000)]
        universe += [claim(name)] * 6 + [claim(name, "w2")] * 3 + [claim(name, epoch=2)]
        universe += [finished(name)] * 2
        universe += [finished(name, reason) for reason in FinishReason]
        universe += [finished(name, who="w2"), finished(name, epoch=2)]
        universe += [
            lease_expired(name, who, epoch) for who, epoch in product(("w1", "w2"), (1, 2))
        ]
        universe += [stop(name, why) for why in (StopReason.USER, StopReason.DISCONNECT)]
        universe += [stop(name, waits=False), stop(name, user="usr_2")]
        universe += [probe(name), probe(name, "w2"), probe(name, epoch=2)]
        universe += [closed(name)] * 3 + [closed(name, epoch=1)]
        universe += [query(generation=f"g-{name}")]
    return [*universe, *[due()] * 6]


def _start(request: str, late_ms: int) -> Callable[[int], Any]:
    return lambda now_ms: start(request, now_ms - late_ms)


def _logs(key: str, universe: Universe, gaps_ms: tuple[int, ...]) -> Logs:
    line = st.tuples(st.sampled_from(gaps_ms), st.sampled_from(universe))
    # Lists alone are short on average; long ones find more, short ones tell more.
    lines = st.one_of(st.lists(line, max_size=8), st.lists(line, min_size=20, max_size=LENGTH_MAX))
    return lines.map(timed(key))


def timed(key: str) -> Callable[[list[tuple[int, Any]]], list[Event]]:
    """Makes a log of (gap in ms, body) lines; a body that needs the time is a function of it."""

    def made(lines: list[tuple[int, Any]]) -> list[Event]:
        now_ms, log = T0_MS, []
        for number, (gap_ms, line) in enumerate(lines):
            now_ms += gap_ms
            body = line(now_ms) if callable(line) else line
            log.append(Event(event_id=f"e{number}", key=key, append_ms=now_ms, body=body))
        return log

    return made
