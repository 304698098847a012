"""Clocks, each for one use. Owns the difference between them; decides nothing.

Wall clocks name moments for people; they decide nothing. Elapsed time is CLOCK_BOOTTIME, which goes
on while a machine sleeps. Broker time is the last append time a broker told us plus what elapsed.
"""

import time


def elapsed_s() -> float:
    """Seconds on a clock that only grows and does not stop in suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def wall_ms() -> int:
    """UTC epoch milliseconds of this machine's clock: for logs and ids, never for a decision."""
    return time.time_ns() // 1_000_000


class BrokerClock:
    """Broker time in epoch milliseconds, from delivery reports that carry the append time."""

    def __init__(self) -> None:
        self._reported_ms = 0
        self._reported_at_s = 0.0

    def report(self, append_ms: int, at_s: float) -> None:
        """A record was appended at `append_ms`; we learnt it at `at_s` of `elapsed_s`."""
        if append_ms > self.now_ms(at_s) or self._reported_ms == 0:
            self._reported_ms, self._reported_at_s = append_ms, at_s

    def now_ms(self, at_s: float) -> int:
        """Broker time at `at_s`, or 0 where no report came yet."""
        if self._reported_ms == 0:
            return 0
        return self._reported_ms + int((at_s - self._reported_at_s) * 1_000)
