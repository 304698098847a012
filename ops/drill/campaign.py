"""Runs many cells: those that share a kind of stack on one stack, one after the other, each to its verdict.

Owns the order, the stacks and the folder of results. A cell that fails stops nothing; a stack that does not
serve any more is left, and the next cell gets a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
from confluent_kafka import KafkaException

from connectors.errors import StoreUnavailable
from ops.drill.cell import Cell, Needs
from ops.drill.ground import Ground, fresh
from ops.drill.result import CellResult
from ops.drill.run import run
from ops.stack.fresh import DidNotCome
from topics.runtime.clock import wall_ms

RESULTS: Final = "results.json"
BROKEN_OFF: Final = (DidNotCome, TimeoutError, KafkaException, StoreUnavailable, AssertionError)
"""What ends a cell without a verdict: a part that did not come or did not answer."""
Tell = Callable[[Cell, CellResult | None], None]
"""A cell begins, or it came to this."""


async def campaign(
    cells: Iterable[Cell], seed: int, out: Path, data: Path, tell: Tell
) -> list[CellResult]:
    """Every cell's result, in the order in which they were run; written to the folder `out`, which exists,
    as they come."""
    results: list[CellResult] = []
    left = sorted(cells, key=lambda cell: [*Needs].index(cell.needs))

    def note(cell: Cell, result: CellResult) -> None:
        results.append(result)
        (out / RESULTS).write_bytes(msgspec.json.encode(results))
        tell(cell, result)

    while left:
        kind = left[0]
        shutil.rmtree(data, ignore_errors=True)
        if kind.measure is not None:
            tell(left.pop(0), None)
            note(kind, await measured(kind, data, seed))
            continue
        async with _ground(kind, data, seed) as ground:
            while left and _may_share(kind, left[0]):
                cell = left.pop(0)
                tell(cell, None)
                result = await one(cell, ground, seed, out)
                note(cell, result)
                if not result.passed:
                    keep_logs(data, out, cell)
                if result.error or not ground.stack.status().ready:
                    break
    return results


def keep_logs(data: Path, out: Path, cell: Cell) -> None:
    """What the parts wrote, of a cell that failed: their stack is gone soon."""
    kept = out / "logs" / cell.name.replace("/", "_")
    shutil.copytree(data / "logs", kept, dirs_exist_ok=True)


async def one(cell: Cell, ground: Ground, seed: int, out: Path) -> CellResult:
    """One cell; what breaks it off is its error, with the place."""
    began_ms = wall_ms()
    try:
        return await run(cell, ground, seed, out)
    except BROKEN_OFF as error:
        return _broken_off(cell, seed, began_ms, error)


async def measured(cell: Cell, data: Path, seed: int) -> CellResult:
    """One cell that brings its own broker."""
    assert cell.measure is not None, "it measures"
    began_ms, stopping = wall_ms(), threading.Event()
    loop = asyncio.get_running_loop()
    work = loop.run_in_executor(None, cell.measure, data, seed, stopping)
    try:
        return await asyncio.shield(work)
    except BROKEN_OFF as error:
        return _broken_off(cell, seed, began_ms, error)
    except asyncio.CancelledError:
        stopping.set()
        await asyncio.wait([work])  # its broker ends with it
        raise


def _broken_off(cell: Cell, seed: int, began_ms: int, error: Exception) -> CellResult:
    where = traceback.extract_tb(error.__traceback__)[-1]
    return CellResult(
        name=cell.name,
        row=cell.row,
        seed=seed,
        began_ms=began_ms,
        healed_ms=wall_ms(),
        ended_ms=wall_ms(),
        faults=[],
        bites=[],
        findings=[],
        looked_at={},
        error=f"{type(error).__name__} in {where.name}: {error}",
    )


@contextlib.asynccontextmanager
async def _ground(cell: Cell, data: Path, seed: int) -> AsyncIterator[Ground]:
    proxied = cell.needs is Needs.PROXIES
    async with fresh(data, seed, proxied=proxied, settings=cell.settings) as ground:
        yield ground


def _may_share(first: Cell, other: Cell) -> bool:
    """Whether a cell may run on the stack that was started for another."""
    if first is other:
        return True
    return first.needs is other.needs and first.needs in (Needs.STACK, Needs.PROXIES)
