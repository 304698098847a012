"""A child ends with its supervisor, and what a killed supervisor left is found again."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ops.stack.part import Part
from ops.stack.process import Process, alive, reap_leftovers, start_time
from tests.ops.stack.children import PYTHON, STUBBORN, Bench, eventually

SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from ops.stack.part import Part
from ops.stack.process import Process
async def main():
    part = Part(name="log", command=(sys.executable, "-c", sys.argv[3], "log", sys.argv[4]))
    await Process.start(part, Path(sys.argv[1]), Path(sys.argv[2]))
    await asyncio.sleep(60)
asyncio.run(main())
"""
OBEDIENT = "import pathlib, sys, time; pathlib.Path(sys.argv[2] + '.log').touch(); time.sleep(60)"


def test_a_child_ends_when_its_supervisor_is_killed(bench: Bench) -> None:
    supervisor, child = _supervise(bench, OBEDIENT)
    supervisor.kill()
    supervisor.wait()
    _until(lambda: start_time(child) == -1)


def test_what_outlives_a_killed_supervisor_is_ended_by_the_next(bench: Bench) -> None:
    supervisor, child = _supervise(bench, STUBBORN)
    supervisor.kill()
    supervisor.wait()
    assert alive(bench.run / "log.pid") == child
    before = time.monotonic()
    assert reap_leftovers(bench.run, deadline_s=0.2) == ["log"]
    assert time.monotonic() - before < 5
    _until(lambda: start_time(child) == -1)
    assert list(bench.run.glob("*.pid")) == []


def test_a_stranger_with_the_same_pid_is_left_alone(bench: Bench) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (bench.run / "log.pid").write_text(f"{stranger.pid} {start_time(stranger.pid) + 1}\n")
        (bench.run / "torn.pid").write_text("")
        assert reap_leftovers(bench.run) == []
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


async def test_output_and_environment_of_a_part(bench: Bench) -> None:
    log = bench.logs / "log.log"
    code = "import os; print(os.environ['MILENA_DATA'], os.getpgid(0) == os.getpid())"
    part = Part(name="log", command=(*PYTHON, code), env={"MILENA_DATA": "here"})
    process = await Process.start(part, log, bench.run)
    assert await process.ended() == 0
    assert log.read_text() == "here True\n"


async def test_the_pid_is_the_commands_own(bench: Bench) -> None:
    part = Part(name="log", command=(*PYTHON, "import os; print(os.getpid())"))
    process = await Process.start(part, bench.logs / "log.log", bench.run)
    await process.ended()
    assert (bench.logs / "log.log").read_text() == f"{process.pid}\n"


async def test_a_stop_waits_for_a_clean_end(bench: Bench) -> None:
    part = bench.server("log", slow_s=0.2)
    process = await Process.start(part, bench.logs / "log.log", bench.run)
    await eventually(Path(f"{bench.ends}.log").exists)
    await process.stop(5.0)
    assert await process.ended() == 0


def _supervise(bench: Bench, code: str) -> tuple[subprocess.Popen[bytes], int]:
    log = bench.logs / "log.log"
    words = (str(log), str(bench.run), code, str(bench.ends))
    supervisor = subprocess.Popen([sys.executable, "-c", SUPERVISOR, *words])
    _until(Path(f"{bench.ends}.log").exists)
    child = alive(bench.run / "log.pid")
    assert child is not None
    assert os.getpgid(child) == child
    return supervisor, child


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)
