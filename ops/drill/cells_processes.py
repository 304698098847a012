"""Cells that end, freeze and restart processes: rows 1, 5, 6, 8, 11, 12, 19 and case P1."""

from __future__ import annotations

import signal
from typing import Final

from ops.drill.cell import Act, Cell
from ops.drill.nemesis import Nemesis

PAUSE_S: Final = 30.0


def killed(part: str, number: signal.Signals = signal.SIGKILL) -> Act:
    """Ends one process while answers are read; the stack starts it again."""

    async def act(nemesis: Nemesis) -> None:
        await nemesis.in_the_middle()
        nemesis.measured["back_s"] = round(await nemesis.end(part, number), 2)

    return act


def frozen(part: str, seconds: float) -> Act:
    """One process stands still for so long while answers are read."""

    async def act(nemesis: Nemesis) -> None:
        await nemesis.in_the_middle()
        await nemesis.freeze(part, seconds)

    return act


def in_turn(part: str) -> Act:
    """SIGTERM, kill -9, then SIGSTOP and SIGCONT: case P1 for one part."""

    async def act(nemesis: Nemesis) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            await nemesis.in_the_middle()
            await nemesis.end(part, number)
            await nemesis.ground.serving()
        await nemesis.in_the_middle()
        await nemesis.freeze(part, PAUSE_S)

    return act


CELLS: Final = (
    Cell(
        name="edge-kill",
        row="1",
        what="kill -9 of an edge in the middle of streams",
        act=killed("edge"),
        short=True,
    ),
    Cell(
        name="accounts-kill",
        row="2",
        what="kill -9 of the accounts machine",
        act=killed("accounts"),
        short=True,
    ),
    Cell(
        name="worker-kill",
        row="5",
        what="kill -9 of the worker in the middle of tokens",
        act=killed("worker-scripted"),
        short=True,
    ),
)
