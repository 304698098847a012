"""Two hundred seeded worlds: every invariant holds at every step, and what must happen sometimes did.

A failure names its seed and the command that replays it.
"""

import os
import subprocess
import sys
from typing import Final

import pytest

SEEDS: Final = 200
PROCESSES: Final = 2
S_MAX: Final = 280


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    """As by hand; the order of sets is fixed, so that a seed is the same in every process."""
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *words],
        env={**os.environ, "PYTHONHASHSEED": "0", "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=S_MAX,
        check=False,
    )


@pytest.mark.timeout(S_MAX + 10)
def test_every_seed_holds_and_every_fault_was_met() -> None:
    ran = simulate("--seeds", str(SEEDS), "--parallel", str(PROCESSES))
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-2_000:]


def test_a_seed_is_the_same_world_every_time() -> None:
    told = {simulate("--seed", "11").stdout for _ in range(2)}
    assert len(told) == 1
    assert "digest" in told.pop()
