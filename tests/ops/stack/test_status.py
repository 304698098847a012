"""The lock says whether a stack runs; the status file says what of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from ops.stack.down import down
from ops.stack.part import Report, State
from ops.stack.process import start_time
from ops.stack.settings import StackError, StackSettings
from ops.stack.status import Lock, open_data, read_status, running_pid, write_status

HOLD = """
import os, signal, sys
from ops.stack.settings import read_settings
from ops.stack.status import Lock, open_data
settings = read_settings(os.environ)
open_data(settings)
Lock.take(settings.run)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("held", flush=True)
signal.pause()
"""


def test_a_second_stack_on_the_same_data_is_refused(settings: StackSettings) -> None:
    open_data(settings)
    holder = _hold(settings)
    try:
        assert running_pid(settings) == holder.pid
        with pytest.raises(StackError, match=rf"already runs on .*\(pid {holder.pid}\): stop it"):
            Lock.take(settings.run)
    finally:
        holder.kill()
        holder.wait()
    assert running_pid(settings) is None
    Lock.take(settings.run).release()


def test_down_stops_it_and_waits(settings: StackSettings) -> None:
    assert not down(settings)
    holder = _hold(settings)
    # Its exit must be collected while `down` waits; here the test is its parent.
    assert down(settings)
    assert holder.wait(5) == 0


def test_down_says_what_to_do_with_one_that_does_not_stop(
    settings: StackSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.stack.down.DOWN_S_MAX", 0.2)
    holder = _hold(settings)
    os.kill(holder.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StackError, match=rf"did not stop within .*kill -9 {holder.pid}"):
            down(settings)
    finally:
        holder.kill()
        holder.wait()


def test_nothing_runs(settings: StackSettings) -> None:
    status = read_status(settings)
    assert (status.running, status.ready, status.parts) == (False, False, ())


def test_a_running_stack(settings: StackSettings) -> None:
    open_data(settings)
    lock = Lock.take(settings.run)
    try:
        own = os.getpid()
        (settings.run / "kafka.pid").write_text(f"{own} {start_time(own)}\n")
        parts = [_report("kafka", pid=own), _report("topics", state=State.DONE, once=True)]
        write_status(settings, "http://127.0.0.1:17000", time.time(), parts, ready=True)
        status = read_status(settings)
        assert (status.running, status.ready, status.pid) == (True, True, own)
        assert status.parts == tuple(parts)
    finally:
        lock.release()
    after = read_status(settings)
    assert (after.running, after.ready) == (False, False)


def test_a_part_that_does_not_answer_makes_it_unready(settings: StackSettings) -> None:
    open_data(settings)
    lock = Lock.take(settings.run)
    try:
        own = os.getpid()
        for name in ("kafka", "registry"):
            (settings.run / f"{name}.pid").write_text(f"{own} {start_time(own)}\n")
        beside = _report("registry", pid=own, ready=False, critical=False)
        write_status(settings, "", 0.0, [_report("kafka", pid=own), beside], ready=True)
        assert read_status(settings).ready
        write_status(settings, "", 0.0, [_report("kafka", pid=own, ready=False)], ready=True)
        assert not read_status(settings).ready
    finally:
        lock.release()


def test_a_pid_that_is_gone_is_not_shown(settings: StackSettings) -> None:
    open_data(settings)
    lock = Lock.take(settings.run)
    try:
        (settings.run / "kafka.pid").write_text(f"{os.getpid()} 1\n")
        write_status(settings, "", 0.0, [_report("kafka", pid=os.getpid())], ready=True)
        (part,) = read_status(settings).parts
        assert (part.state, part.pid, part.ready) == (State.STOPPED, None, False)
    finally:
        lock.release()


def test_the_data_folder_is_private(settings: StackSettings) -> None:
    open_data(settings)
    assert settings.data.stat().st_mode & 0o077 == 0


def _hold(settings: StackSettings) -> subprocess.Popen[str]:
    env = {**os.environ, "MILENA_DATA": str(settings.data), "MILENA_PORT_BASE": "17000"}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD], env=env, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    with holder.stdout as told:
        assert told.readline() == "held\n"
    return holder


def _report(
    name: str,
    *,
    pid: int | None = None,
    state: State = State.READY,
    ready: bool = True,
    once: bool = False,
    critical: bool = True,
) -> Report:
    return Report(
        name=name,
        state=state,
        pid=pid,
        port=None,
        since=1.0,
        restarts=0,
        ready=ready,
        once=once,
        critical=critical,
        took_s=1.0,
        note="",
        log="",
    )
