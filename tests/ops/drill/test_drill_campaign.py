"""A campaign that is told to stop ends what it started, and what breaks off is a result."""

import asyncio
import contextlib
import os
import signal
import threading
from pathlib import Path

import pytest
import typer

from ops.cli.console import ExitCode
from ops.cli.drill import _until_told
from ops.drill.campaign import campaign, measured
from ops.drill.cell import Cell, Needs
from ops.drill.result import CellResult
from ops.stack.fresh import DidNotCome

S_MAX = 10.0


def measuring(measure: object) -> Cell:
    return Cell(name="resume/x", row="2", what="x", needs=Needs.BROKER, measure=measure)  # type: ignore[arg-type]


async def test_sigterm_ends_the_work_and_lets_it_clean_up() -> None:
    cleaned = asyncio.Event()

    async def work() -> list[CellResult]:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return []

    async with asyncio.timeout(S_MAX):
        with pytest.raises(typer.Exit) as ended:
            await _until_told(work())
    assert ended.value.exit_code == ExitCode.INTERRUPTED
    assert cleaned.is_set()
    asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


async def test_a_measurement_that_is_told_to_stop_is_waited_for(tmp_path: Path) -> None:
    began, ended = threading.Event(), threading.Event()

    def measure(data: Path, seed: int, stopping: threading.Event) -> CellResult:
        began.set()
        assert stopping.wait(S_MAX), "told to stop"
        ended.set()
        raise DidNotCome("told to stop")

    task = asyncio.create_task(measured(measuring(measure), tmp_path, 1))
    await asyncio.to_thread(began.wait, S_MAX)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert ended.is_set(), "its broker ended before the campaign did"


async def test_what_breaks_off_is_a_failed_result_and_the_next_cell_runs(tmp_path: Path) -> None:
    def measure(data: Path, seed: int, stopping: threading.Event) -> CellResult:
        raise DidNotCome("no broker")

    cells = [measuring(measure), measuring(measure)]
    told: list[CellResult | None] = []
    results = await campaign(
        cells, 7, tmp_path, tmp_path / "data", lambda cell, result: told.append(result)
    )
    assert [result.passed for result in results] == [False, False]
    assert "DidNotCome in measure: no broker" in results[0].error
    assert told == [None, results[0], None, results[1]]
    assert (tmp_path / "results.json").is_file()
