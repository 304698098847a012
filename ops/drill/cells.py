"""The table of cells. Owns their order and the seeded choice among them."""

from __future__ import annotations

import random
from typing import Final

from ops.drill import cells_data, cells_machines, cells_processes, cells_topics, resume
from ops.drill.cell import Cell

CELLS: Final[tuple[Cell, ...]] = (
    *cells_processes.CELLS,
    *cells_machines.CELLS,
    *cells_data.CELLS,
    *cells_topics.CELLS,
    *resume.CELLS,
)
BY_NAME: Final = {cell.name: cell for cell in CELLS}


def selection(seed: int, count: int) -> list[Cell]:
    """Some of the short cells, others for another seed."""
    short = [cell for cell in CELLS if cell.short]
    chance = random.Random(f"{seed}/selection")  # noqa: S311  a seeded choice, no secret
    return chance.sample(short, min(count, len(short)))
