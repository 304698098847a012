"""Each safety, turned off in the running code, is missed: some seed within a stated number finds it."""

import shlex

import pytest

from tests.simulation.batch import BUGS
from tests.simulation.bugs import Bug
from tests.simulation.test_seeds import simulate


@pytest.mark.parametrize("bug", BUGS.values(), ids=lambda bug: bug.name)
def test_a_seeded_bug_is_found(bug: Bug) -> None:
    ran = simulate("--bug", bug.name, "--seeds", str(bug.within), "--parallel", "2")
    assert ran.returncode == 1
    assert f"--bug {shlex.quote(bug.name)}" in ran.stdout, "no seed failed: " + ran.stderr[-500:]
    assert "Broken: I" in ran.stdout
