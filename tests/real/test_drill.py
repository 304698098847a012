"""Some cells of the drill on the stack of all real tests, other ones for another seed: every fault strikes,
and nothing is lost.

The same ones in every run, so that a failure is this change's; `MILENA_TEST_DRILL_SEED` chooses others.
What failed is run again with the line in the message. The whole drill is `make drill`.
"""

import os
from pathlib import Path

import pytest

from ops.cli.drill import outcome_lines
from ops.drill import ground
from ops.drill.campaign import one
from ops.drill.cells import selection
from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge

CELLS = 4
SEED = int(os.environ.get("MILENA_TEST_DRILL_SEED") or 8_639)

pytestmark = [pytest.mark.real, pytest.mark.timeout(360)]


@pytest.mark.parametrize("place", range(CELLS))
async def test_a_cell_of_the_drill(
    stack: FreshStack, second_edge: SecondEdge, tmp_path: Path, place: int
) -> None:
    cell = selection(SEED, CELLS)[place]
    async with ground.on(stack, second_edge, None) as here:
        result = await one(cell, here, SEED, tmp_path)
    again = f"milena drill --seed {SEED} --cells {cell.name}"
    assert result.passed, "\n".join([cell.name, *outcome_lines(result), again])
    assert result.looked_at["accepted"] > 0
