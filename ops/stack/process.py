"""One child process: started in a group of its own, logged to a file, known by a pid file.

A pid file holds the pid and the process's start time, so that a pid used anew by a stranger is
never signalled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from ops.stack.part import Part

CHILD = Path(__file__).with_name("child.py")
LEFTOVER_S_MAX = 10.0


class Process:
    """A running part. `pid` is the part's own: the wrapper replaces itself by the command."""

    def __init__(self, child: asyncio.subprocess.Process, pid_file: Path) -> None:
        self._child = child
        self._pid_file = pid_file
        self._swept = False
        self.pid = child.pid

    @classmethod
    async def start(cls, part: Part, log: Path, run: Path) -> Process:
        """Starts the command; its output is appended to the log.

        Raises:
            OSError: when the log or the process cannot be made.
        """
        wrapper = (sys.executable, "-I", "-S", str(CHILD), str(os.getpid()))
        with log.open("ab") as output:
            child = await asyncio.create_subprocess_exec(
                *wrapper,
                *part.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **part.env},
                process_group=0,
            )
        pid_file = run / f"{part.name}.pid"
        pid_file.write_text(f"{child.pid} {start_time(child.pid)}\n")
        return cls(child, pid_file)

    async def ended(self) -> int:
        """Waits for its end: the exit status, negative for a signal."""
        code = await self._child.wait()
        self._pid_file.unlink(missing_ok=True)
        if not self._swept:
            # What it started itself ends with it; later its number may be a stranger's.
            self._swept = True
            _kill_group(self.pid)
        return code

    async def stop(self, deadline_s: float) -> None:
        """SIGTERM, and SIGKILL to its whole group past the deadline."""
        if self._child.returncode is None:
            if deadline_s > 0:
                with contextlib.suppress(ProcessLookupError):
                    self._child.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._child.wait(), max(deadline_s, 0.01))
            except TimeoutError:
                self.kill()
        await self.ended()

    def kill(self) -> None:
        """SIGKILL to the whole group, at once."""
        if self._child.returncode is None:
            _kill_group(self.pid)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def start_time(pid: int) -> int:
    """The kernel's start time of a process in clock ticks since boot, or -1 where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    # The command in parentheses may hold spaces: count fields from behind it.
    return int(stat.rpartition(")")[2].split()[19])


def alive(pid_file: Path) -> int | None:
    """The pid in the file if that very process still runs."""
    try:
        pid, started = (int(word) for word in pid_file.read_text().split())
    except (OSError, ValueError):
        return None
    return pid if started != -1 and start_time(pid) == started else None


def reap_leftovers(run: Path, deadline_s: float = LEFTOVER_S_MAX) -> list[str]:
    """Ends parts of a supervisor that was killed, and removes their pid files. Returns names."""
    left = {file: pid for file in run.glob("*.pid") if (pid := alive(file)) is not None}
    for pid in left.values():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + deadline_s
    while any(alive(file) for file in left) and time.monotonic() < until:
        time.sleep(0.05)
    for file, pid in left.items():
        if alive(file) == pid:
            _kill_group(pid)
    for file in run.glob("*.pid"):
        file.unlink(missing_ok=True)
    return sorted(file.stem for file in left)
