"""`milena up` as a process, over the one real part that starts in no time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops.stack.fresh import free_base
from ops.stack.ports import taken

MILENA = (sys.executable, "-m", "ops.cli.main")


class Terminal:
    """Runs the program over one data folder and reads the JSON lines it prints."""

    def __init__(self, data: Path) -> None:
        self.base = free_base()
        self.data = data
        self.env = {
            **{name: value for name, value in os.environ.items() if "MILENA" not in name},
            "MILENA_DATA": str(data),
            "MILENA_PORT_BASE": str(self.base),
            "MILENA_STACK_PARTS": "redis",
        }
        self.running: list[subprocess.Popen[str]] = []

    def up(self) -> subprocess.Popen[str]:
        words = (*MILENA, "up", "--json")
        process = subprocess.Popen(words, env=self.env, stdout=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def milena(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (*MILENA, *words), env=self.env, capture_output=True, text=True, timeout=60
        )

    def status(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.milena("status", "--json").stdout)
        return told

    def end(self) -> None:
        for process in self.running:
            process.kill()
            process.communicate()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(tmp_path / "data")
    yield made
    made.end()


def test_up_crash_status_down(terminal: Terminal) -> None:
    process = terminal.up()
    first = _part(process, restarts=0)
    status = terminal.status()
    assert (status["running"], status["ready"], status["pid"]) == (True, True, process.pid)
    assert [part["name"] for part in status["parts"]] == ["redis"]
    assert status["parts"][0]["port"] == terminal.base + 14

    os.kill(first["pid"], signal.SIGKILL)
    again = _part(process, restarts=1)
    assert again["pid"] != first["pid"]

    refused = terminal.milena("up")
    assert refused.returncode == 2
    assert f"a stack already runs on {terminal.data} (pid {process.pid})" in refused.stdout

    stopped = terminal.milena("down")
    assert (stopped.returncode, stopped.stdout) == (0, "stopped\n")
    assert process.wait(10) == 0
    assert not taken(terminal.base + 14)
    assert terminal.milena("status").returncode == 1
    assert "no stack runs over" in terminal.milena("down").stdout
    assert "Ready to accept connections" in (terminal.data / "logs" / "redis.log").read_text()
    assert (terminal.data / "secret").stat().st_mode & 0o777 == 0o600


def test_a_killed_supervisor_leaves_nothing_in_the_way(terminal: Terminal) -> None:
    process = terminal.up()
    left = _part(process, restarts=0)
    process.kill()
    process.wait()
    again = terminal.up()
    assert _part(again, restarts=0)["pid"] != left["pid"]
    again.send_signal(signal.SIGTERM)
    assert again.wait(10) == 0


def test_a_taken_port_is_one_line_and_nothing_starts(terminal: Terminal) -> None:
    process = terminal.up()
    _part(process, restarts=0)
    terminal.env["MILENA_DATA"] = str(terminal.data.with_name("other"))
    refused = terminal.milena("up")
    assert refused.returncode == 2
    (line,) = [line for line in refused.stdout.splitlines() if line.startswith("error")]
    assert f"port {terminal.base + 14}: wanted by redis, taken by redis-server (pid" in line
    assert "MILENA_STACK_REDIS_PORT, or all with MILENA_PORT_BASE" in line


def _part(process: subprocess.Popen[str], *, restarts: int) -> dict[str, Any]:
    """The report of the first readiness after so many restarts, from the program's lines."""
    assert process.stdout is not None
    deadline = time.monotonic() + 30
    for line in process.stdout:
        assert time.monotonic() < deadline
        part = json.loads(line).get("part", {})
        if part.get("state") == "ready" and part.get("restarts") == restarts:
            found: dict[str, Any] = part
            _settle(process, restarts)
            return found
    raise AssertionError("it ended before redis was ready")


def _settle(process: subprocess.Popen[str], restarts: int) -> None:
    """Reads on until the start is over, so that the status file says so too."""
    assert process.stdout is not None
    if restarts:
        return
    for line in process.stdout:
        if "said" in json.loads(line):
            return
