"""Cells about what a machine has said and not yet heard: rows 2 to 4, 7, 9 and 18.

A proxy sees each request of a machine to the broker, so that a kill strikes at a chosen point of an event:
before its outputs are sent, when they are appended, and so on to its commit.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Final

from ops.drill import compaction, signs
from ops.drill.cell import Act, Cell, Needs
from ops.drill.cells_processes import SESSION_S
from ops.drill.kafka_tap import OFFSET_COMMIT, PRODUCE, Moment, Trap
from ops.drill.nemesis import Nemesis
from ops.verify.source import GROUP_PREFIX
from topics.registry import (
    ACCOUNTS_INBOX,
    CHANGELOGS,
    FACTS_ADMISSION,
    FACTS_RUNS,
    FACTS_USAGE,
    RUNS_INBOX,
)

TRAP_S_MAX: Final = 30.0
OUTPUT_OF: Final = {
    "accounts": FACTS_ADMISSION.name,
    "runs": FACTS_RUNS.name,
    "metering": FACTS_USAGE.name,
}
"""A topic that only this machine writes to."""
NATIVE: Final = b"rdkafka"
"""How the processes beside the machines call themselves to the broker."""
STORM_S: Final = 60.0


def six_points(machine: str) -> Act:
    """kill -9 at each of them, one after the other."""
    output, changelog = OUTPUT_OF[machine].encode(), CHANGELOGS[machine].name.encode()
    group = f"{GROUP_PREFIX}{machine}".encode()
    points: tuple[tuple[str, int, bytes, Moment], ...] = (
        ("before its outputs", PRODUCE, output, Moment.BEFORE_REQUEST),
        ("outputs appended, not told", PRODUCE, output, Moment.BEFORE_REPLY),
        ("before its changelog", PRODUCE, changelog, Moment.BEFORE_REQUEST),
        ("changelog appended, not told", PRODUCE, changelog, Moment.BEFORE_REPLY),
        ("before its commit", OFFSET_COMMIT, group, Moment.BEFORE_REQUEST),
        ("committed", OFFSET_COMMIT, group, Moment.AFTER_REPLY),
    )

    async def act(nemesis: Nemesis) -> None:
        for name, api_key, needle, moment in points:
            await nemesis.ground.serving()
            pid = nemesis.ground.stack.part(machine).pid
            assert pid is not None, "it serves"
            trap = Trap(api_key, (needle,), moment, _killing(pid))
            await _sprung(nemesis, trap, f"kill -9 {name}", machine)
            await nemesis.back(machine, pid)

    return act


def reply_cut(part: str, api_key: int, *needles: bytes) -> Act:
    """The broker did what was asked, and its answer never comes: the outcome is unknown."""

    async def act(nemesis: Nemesis) -> None:
        await nemesis.in_the_middle()
        for _ in range(3):
            trap = Trap(api_key, needles, Moment.BEFORE_REPLY)
            await _sprung(nemesis, trap, "reply cut", part)
            await asyncio.sleep(nemesis.chance.uniform(0.5, 2.0))

    return act


def edge_killed_at_its_submit(moment: Moment) -> Act:
    """kill -9 of the edge while a Submit is on its way: before it is appended, or before it knows."""

    async def act(nemesis: Nemesis) -> None:
        await nemesis.in_the_middle()
        pid = nemesis.ground.stack.part("edge").pid
        assert pid is not None, "it serves"
        needles = (ACCOUNTS_INBOX.name.encode(), NATIVE)
        trap = Trap(PRODUCE, needles, moment, _killing(pid))
        await _sprung(nemesis, trap, f"kill -9 {moment.value} of a Submit", "edge")
        await nemesis.back("edge", pid)

    return act


async def worker_killed_at_its_claim(nemesis: Nemesis) -> None:
    """Its claim is appended, and it never learns that it was granted."""
    await nemesis.in_the_middle()
    pid = nemesis.ground.stack.part("worker-scripted").pid
    assert pid is not None, "it serves"
    needles = (RUNS_INBOX.name.encode(), NATIVE, b"scripted-0")
    trap = Trap(PRODUCE, needles, Moment.BEFORE_REPLY, _killing(pid))
    await _sprung(nemesis, trap, "kill -9 with a claim or an end appended", "worker-scripted")
    await nemesis.back("worker-scripted", pid)


async def elsewhere(nemesis: Nemesis) -> None:
    """A second instance shares the work, from a folder of its own; then each is killed in turn."""
    await nemesis.in_the_middle()
    second = await nemesis.beside("accounts", "accounts-1")
    await nemesis.ground.serving()
    await nemesis.end("accounts")
    await nemesis.ground.serving()
    had = await asyncio.to_thread(
        signs.metric, second.operator_port, "milena_machine_events_total", machine="accounts"
    )
    nemesis.saw("the second instance folded", had > 0, f"{had:g} events")
    await nemesis.leave(second, signal.SIGKILL)
    await asyncio.sleep(SESSION_S + 2)


def zombie(machine: str) -> Act:
    """It stands still for two sessions while another takes over, wakes up, and must change nothing; the
    changelog is compacted before anybody looks."""

    async def act(nemesis: Nemesis) -> None:
        await nemesis.in_the_middle()
        since = signs.log_size(nemesis.ground, machine)
        pid = await nemesis.stop_moving(machine)
        second = await nemesis.beside(machine, f"{machine}-1")
        await asyncio.sleep(2 * SESSION_S)
        await nemesis.ground.serving()
        folded = await asyncio.to_thread(
            signs.metric, second.operator_port, "milena_machine_events_total", machine=machine
        )
        nemesis.saw("its successor folded meanwhile", folded > 0, f"{folded:g} events")
        await nemesis.go_on(pid)
        await nemesis.until_so(lambda: signs.gone(pid), 2 * SESSION_S)
        told = signs.log_tail(nemesis.ground, machine, since)
        fenced = signs.gone(pid) or "fence" in told
        nemesis.saw("the zombie ended itself", fenced, _last_reason(told))
        await nemesis.back(machine, pid)
        await nemesis.ground.serving()
        await compact(nemesis, machine)

    return act


async def compact(nemesis: Nemesis, machine: str) -> None:
    """Forces the changelog's compaction and waits until it has taken records away."""
    done = await asyncio.to_thread(
        compaction.compact, nemesis.ground.bootstrap, CHANGELOGS[machine], 60.0
    )
    nemesis.note(f"compacted: {done.before} records to {done.after}", machine)
    nemesis.saw("compaction took records away", done.took, f"{done.before} → {done.after}")


def compacted_and_killed(machine: str) -> Act:
    """What is left of a changelog after compaction is enough to go on from."""

    async def act(nemesis: Nemesis) -> None:
        await nemesis.in_the_middle()
        await nemesis.load.until_ended(12)
        await compact(nemesis, machine)
        await nemesis.end(machine)

    return act


def storm(machine: str) -> Act:
    """Ten joins and leaves in a minute."""

    async def act(nemesis: Nemesis) -> None:
        since = signs.log_size(nemesis.ground, machine)
        await nemesis.in_the_middle()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(5):
            second = await nemesis.beside(machine, f"{machine}-{number + 1}")
            await asyncio.sleep(max(0.0, began + (number + 0.5) * STORM_S / 5 - loop.time()))
            ends = signal.SIGKILL if nemesis.chance.random() < 0.5 else signal.SIGTERM
            await nemesis.leave(second, ends)
            await asyncio.sleep(max(0.0, began + (number + 1) * STORM_S / 5 - loop.time()))
        told = signs.log_tail(nemesis.ground, machine, since)
        count = told.count('"recovered"')
        nemesis.saw("its partitions came and went", count >= 5, f"{count} assignments")

    return act


async def _sprung(nemesis: Nemesis, trap: Trap, what: str, part: str) -> None:
    """Sets a trap and waits until it closed."""
    proxies = nemesis.ground.proxies
    assert proxies is not None, "a ground with proxies"
    await proxies.do(lambda: proxies.traps.set(trap))
    closed = await nemesis.until(lambda: trap.closed > 0, TRAP_S_MAX)
    nemesis.note(what, part)
    nemesis.saw(f"{what}: the trap closed", closed)
    await proxies.do(proxies.traps.clear)


def _killing(pid: int) -> Callable[[], None]:
    return lambda: os.kill(pid, signal.SIGKILL)


def _last_reason(told: str) -> str:
    """The last line of a log that says why a machine ended."""
    lines = [line for line in told.splitlines() if '"machine ends"' in line]
    return lines[-1][:300] if lines else "it said nothing"


CELLS: Final = (
    *(
        Cell(
            name=f"{machine}-six-points",
            row="2",
            what=f"kill -9 of {machine} at six points of an event",
            act=six_points(machine),
            needs=Needs.PROXIES,
            act_s_max=240.0,
        )
        for machine in OUTPUT_OF
    ),
    Cell(
        name="edge-kill-before-submit",
        row="1",
        what="kill -9 of an edge before its Submit is appended",
        act=edge_killed_at_its_submit(Moment.BEFORE_REQUEST),
        needs=Needs.PROXIES,
    ),
    Cell(
        name="edge-kill-after-submit",
        row="1",
        what="kill -9 of an edge, its Submit appended",
        act=edge_killed_at_its_submit(Moment.BEFORE_REPLY),
        needs=Needs.PROXIES,
    ),
    Cell(
        name="worker-kill-at-claim",
        row="5",
        what="kill -9 of the worker, its claim appended",
        act=worker_killed_at_its_claim,
        needs=Needs.PROXIES,
    ),
    Cell(
        name="accounts-elsewhere",
        row="3",
        what="accounts on two folders, each killed in turn",
        act=elsewhere,
    ),
    *(
        Cell(
            name=f"{machine}-zombie",
            row="4",
            what=f"SIGSTOP of {machine} for two sessions while another takes over, SIGCONT, compaction",
            act=zombie(machine),
            act_s_max=240.0,
        )
        for machine in ("accounts", "runs")
    ),
    *(
        Cell(
            name=f"{machine}-storm",
            row="7",
            what=f"ten joins and leaves of {machine} in {STORM_S:g} s",
            act=storm(machine),
            act_s_max=240.0,
        )
        for machine in ("accounts", "runs")
    ),
    *(
        Cell(
            name=f"{part}-produce-cut",
            row="9",
            what=f"the broker's reply to a produce of {part} is cut, three times",
            act=reply_cut(part, PRODUCE, *needles),
            needs=Needs.PROXIES,
        )
        for part, needles in {
            **{name: (topic.encode(),) for name, topic in OUTPUT_OF.items()},
            "edge": (ACCOUNTS_INBOX.name.encode(), NATIVE),
            "worker": (RUNS_INBOX.name.encode(), NATIVE, b"scripted-0"),
        }.items()
    ),
    Cell(
        name="accounts-commit-cut",
        row="9",
        what="the broker's reply to an offset commit of accounts is cut, three times",
        act=reply_cut("accounts", OFFSET_COMMIT, b"milena-accounts"),
        needs=Needs.PROXIES,
    ),
    Cell(
        name="accounts-compacted",
        row="18",
        what="the changelog of accounts is compacted, then kill -9",
        act=compacted_and_killed("accounts"),
        act_s_max=200.0,
    ),
)
