"""The supervisor over tiny processes: order, readiness, crash and back-off, stop, kill."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from ops.stack import supervisor as supervising
from ops.stack.part import NotReady, Part, State
from ops.stack.supervisor import StartFailed, backoff_s, check, describe
from tests.ops.stack.children import PYTHON, STUBBORN, Bench, eventually


async def test_starts_in_order_of_need_and_stops_in_reverse(bench: Bench) -> None:
    run = bench.supervisor(
        bench.server("edge", after=("worker", "prepare")),
        bench.server("worker", after=("log",)),
        bench.step("prepare", after=("log",)),
        bench.server("log"),
    )
    run.start()
    await run.ready()
    came = [r.name for r in bench.told if r.state in (State.READY, State.DONE)]
    assert came[0] == "log"
    assert came[-1] == "edge"
    await run.stop()
    assert bench.ends.read_text().split() == ["edge", "worker", "log"]
    assert {r.state for r in run.reports()} == {State.STOPPED, State.DONE}
    assert list(bench.run.glob("*.pid")) == []


async def test_parts_that_need_nothing_of_each_other_start_together(bench: Bench) -> None:
    names = ("a", "b", "c")
    markers = [Path(f"{bench.ends}.{name}").exists for name in names]

    async def all_run() -> None:
        if not all(exists() for exists in markers):
            raise NotReady("one of them does not run yet")

    # None is ready before all three run, so a start one after the other would never end.
    parts = [msgspec.structs.replace(bench.server(name), ready=all_run) for name in names]
    run = bench.supervisor(*parts)
    run.start()
    await run.ready()
    await run.stop()


async def test_a_crash_is_told_with_its_log_and_the_part_restarted(bench: Bench) -> None:
    run = bench.supervisor(bench.server("log"))
    run.start()
    await run.ready()
    first = await bench.until("log", lambda r: r.state is State.READY)
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    told = await bench.until("log", lambda r: r.state is State.BACKING_OFF)
    assert told.note == f"it was ended by SIGKILL; again in 0.5 s, see {bench.logs / 'log.log'}"
    again = await bench.until("log", lambda r: r.state is State.READY and r.restarts == 1)
    assert again.pid != first.pid
    await run.stop()


async def test_a_part_that_never_starts_is_given_up_and_the_start_fails(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "BACKOFF_S_FIRST", 0.01)
    run = bench.supervisor(bench.step("store", "raise SystemExit(3)"), bench.server("log"))
    run.start()
    with pytest.raises(StartFailed, match=r"store cannot be started: it ended with 3\. Read .*log"):
        await run.ready()
    assert bench.states("store").count(State.STARTING) == supervising.START_TRIES_MAX
    await run.stop()
    assert bench.states("store")[-1] is State.FAILED


async def test_a_part_beside_the_way_fails_without_stopping_the_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "BACKOFF_S_FIRST", 0.01)
    broken = bench.step("registry", "raise SystemExit(1)", critical=False)
    run = bench.supervisor(broken, bench.server("log"))
    run.start()
    await run.ready()
    await bench.until("registry", lambda r: r.state is State.FAILED)
    await run.stop()


async def test_a_step_that_refuses_ends_the_stack_even_when_it_serves_already(
    bench: Bench,
) -> None:
    step = Part(name="schemas", command=(*PYTHON, "raise SystemExit(5)"), once=True, critical=False)
    run = bench.supervisor(bench.server("edge"), msgspec.structs.replace(step, refuses=(5,)))
    run.start()
    with pytest.raises(StartFailed, match="schemas refuses"):
        await run.wait()
    await run.stop()


async def test_a_command_that_does_not_exist_is_a_failed_start(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "BACKOFF_S_FIRST", 0.01)
    run = bench.supervisor(Part(name="ghost", command=("/no/such/program",), once=True))
    run.start()
    with pytest.raises(StartFailed, match="ghost cannot be started"):
        await run.ready()
    await run.stop()
    said = (bench.logs / "ghost.log").read_text().splitlines()
    assert set(said) == {"/no/such/program: No such file or directory"}


async def test_not_ready_in_time_is_a_crash_that_says_what_was_seen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "START_TRIES_MAX", 1)

    async def never() -> None:
        raise NotReady("port 1 is not open")

    hangs = Part(
        name="log", command=(*PYTHON, "import time; time.sleep(60)"), ready=never, start_s_max=0.2
    )
    run = bench.supervisor(hangs)
    run.start()
    with pytest.raises(StartFailed, match=r"not ready within 0\.2 s \(port 1 is not open\)"):
        await run.ready()
    await run.stop()


async def test_a_part_deaf_to_sigterm_is_killed_with_what_it_started(bench: Bench) -> None:
    parent = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, *sys.argv[4:]])\n{STUBBORN}"
    )
    deaf = bench.server("deaf", code=STUBBORN, stop_s_max=0.2)
    grandchild = Path(f"{bench.ends}.child")
    family = bench.server("family", code=parent, stop_s_max=0.2)
    child = ("-I", "-S", "-c", STUBBORN, "child", str(bench.ends))
    family = Part(
        name="family",
        command=(*family.command, *child),
        ready=family.ready,
        stop_s_max=0.2,
    )
    run = bench.supervisor(deaf, family)
    run.start()
    await run.ready()
    await eventually(grandchild.exists)
    pids = [r.pid for r in run.reports()]
    began = time.monotonic()
    await run.stop()
    assert time.monotonic() - began < 3
    assert [pid for pid in pids if pid is None] == []
    assert _running_in_groups({pid for pid in pids if pid is not None}) == []


async def test_asking_twice_kills_at_once(bench: Bench) -> None:
    run = bench.supervisor(bench.server("slow", slow_s=30.0, stop_s_max=25.0))
    run.start()
    await run.ready()
    run.ask_to_stop()
    stopping = asyncio.create_task(run.stop())
    await bench.until("slow", lambda r: r.state is State.STOPPING)
    began = time.monotonic()
    run.ask_to_stop()
    await stopping
    assert time.monotonic() - began < 2


async def test_past_the_deadline_of_all_the_rest_is_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "STOP_S_MAX", 0.3)
    run = bench.supervisor(
        bench.server("log", slow_s=30.0, stop_s_max=25.0),
        bench.server("edge", slow_s=30.0, stop_s_max=25.0, after=("log",)),
    )
    run.start()
    await run.ready()
    began = time.monotonic()
    await run.stop()
    assert time.monotonic() - began < 3
    assert {r.state for r in run.reports()} == {State.STOPPED}


async def test_stopping_while_it_starts_ends_what_was_started(bench: Bench) -> None:
    run = bench.supervisor(
        bench.step("format", "import time; time.sleep(60)"),
        bench.server("log", after=("format",)),
    )
    run.start()
    await bench.until("format", lambda r: r.state is State.STARTING)
    asyncio.get_running_loop().call_later(0.1, run.ask_to_stop)
    await run.ready()
    await run.stop()
    assert bench.states("log")[-1] is State.STOPPED
    assert State.STARTING not in bench.states("log")


async def test_a_ready_part_that_stops_answering_is_shown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervising, "WATCH_S", 0.02)
    answers = [True]

    async def look() -> None:
        if not answers[0]:
            raise NotReady("no answer from port 1")

    run = bench.supervisor(bench.server("log", watch=look))
    run.start()
    await run.ready()
    answers[0] = False
    seen = await bench.until("log", lambda r: r.state is State.READY and not r.ready)
    assert seen.note == "no answer from port 1"
    answers[0] = True
    told = len(bench.told)
    await eventually(lambda: any(r.ready for r in bench.told[told:]))
    await run.stop()


async def test_a_defect_of_a_check_ends_the_run_loudly(bench: Bench) -> None:
    async def broken() -> None:
        raise KeyError("a defect")

    run = bench.supervisor(Part(name="log", command=bench.server("log").command, ready=broken))
    run.start()
    await run.ready()
    assert run.stopping
    with pytest.raises(KeyError):
        await run.stop()


async def test_a_log_is_cut_at_its_bound(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.stack.life.LOG_BYTES_MAX", 1000)
    monkeypatch.setattr(supervising, "WATCH_S", 0.02)
    log = bench.logs / "log.log"
    log.write_text("x" * 2000)
    run = bench.supervisor(bench.server("log"))
    run.start()
    await eventually(lambda: log.with_suffix(".log.1").exists() and log.stat().st_size == 0)
    await run.stop()


def test_backoff_doubles_to_its_bound() -> None:
    assert [backoff_s(n) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 10, 10]


def test_a_plan_with_a_circle_or_a_ghost_is_refused() -> None:
    def part(name: str, *after: str) -> Part:
        return Part(name=name, command=("true",), after=after)

    assert [p.name for p in check([part("b", "a"), part("a")])] == ["a", "b"]
    with pytest.raises(ValueError, match="circle"):
        check([part("a", "b"), part("b", "a")])
    with pytest.raises(ValueError, match="nothing known"):
        check([part("a", "ghost")])
    with pytest.raises(ValueError, match="same name"):
        check([part("a"), part("a")])


def test_an_exit_status_in_words() -> None:
    assert describe(3) == "it ended with 3"
    assert describe(-9) == "it was ended by SIGKILL"
    assert describe(-200) == "it was ended by signal 200"


def _running_in_groups(groups: set[int]) -> list[int]:
    running = []
    for process in psutil.process_iter(["status"]):
        with contextlib.suppress(ProcessLookupError):
            if process.info["status"] != psutil.STATUS_ZOMBIE:
                running += [process.pid] if os.getpgid(process.pid) in groups else []
    return running
