"""Hypothesis strategies for logs of one key. Owns the universe of events; knows no law.

Append times never fall, as the shell guarantees. Few identities meet many events, so that repeats,
conflicts and lost races are the rule.
"""

from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from processors.machine import Event
from schemas.generated.types import ReleaseReason, Terminal, Tier
from tests.processors.events import consume, due, query, release, settle, submit
from tests.processors.story import T0_MS

SECOND_MS: Final = 1_000
HOUR_MS: Final = 3_600 * SECOND_MS
SHORT_MS: Final = (0, 1, 400, 3 * SECOND_MS, 20 * SECOND_MS)
LONG_MS: Final = (*SHORT_MS, 2 * HOUR_MS, 25 * HOUR_MS)
LENGTH_MAX: Final = 40

Logs = st.SearchStrategy[list[Event]]
restarts: Final = st.lists(
    st.tuples(st.integers(0, LENGTH_MAX), st.integers(0, 8), st.integers(0, 5)), max_size=4
)


def _request(number: int) -> Any:
    # Four keys for seven requests; some ask for something else under their key, some by another tier.
    content = "other" if number % 5 == 4 else "same"
    tier = Tier.PAID if number % 3 == 2 else Tier.FREE
    return submit(f"r{number}", f"k{number % 4}", content=content, tier=tier)


def account_logs(gaps_ms: tuple[int, ...] = LONG_MS) -> Logs:
    """Logs of one account: requests, their effects in any order, repeats, deadlines."""
    number = st.integers(0, 6)
    effects = st.one_of(
        *[st.builds(_request, number)] * 4,
        st.builds(lambda n: consume(f"r{n}"), number),
        st.builds(
            lambda n, reason: release(f"r{n}", reason),
            number,
            st.sampled_from((ReleaseReason.QUEUE_DEADLINE, ReleaseReason.CANCELLED)),
        ),
        st.builds(
            lambda n, terminal: settle(f"r{n}", terminal),
            number,
            st.sampled_from((Terminal.COMPLETED, Terminal.FAILED)),
        ),
        st.just(due()),
        st.just(query()),
    )
    return _logs("usr_1", effects, gaps_ms)


def _logs(key: str, body: st.SearchStrategy[Any], gaps_ms: tuple[int, ...]) -> Logs:
    line = st.tuples(st.sampled_from(gaps_ms), body)
    # Lists alone are short on average; long ones find more, short ones tell more.
    lines = st.one_of(st.lists(line, max_size=8), st.lists(line, min_size=20, max_size=LENGTH_MAX))
    return lines.map(timed(key))


def timed(key: str) -> Callable[[list[tuple[int, Any]]], list[Event]]:
    def timed(lines: list[tuple[int, Any]]) -> list[Event]:
        now_ms, log = T0_MS, []
        for number, (gap_ms, body) in enumerate(lines):
            now_ms += gap_ms
            log.append(Event(event_id=f"e{number}", key=key, append_ms=now_ms, body=body))
        return log

    return timed
