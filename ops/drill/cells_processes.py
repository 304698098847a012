"""Cells that end, freeze and restart processes under load: rows 1, 2, 5, 6, 8, 11, 12, 19 and case P1."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from ops.drill import reads, signs
from ops.drill.cell import Act, Cell, Needs
from ops.drill.ground import OURS
from ops.drill.nemesis import Nemesis
from topics.runtime.clock import wall_ms

PAUSE_S: Final = 30.0
SESSION_S: Final = 10.0
"""Of a group's member, and a worker's lease."""
AWAY_S: Final = 90.0
WORKER: Final = "worker-scripted"
STORES: Final = ("redis", "cassandra", "kafka")


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
    """SIGTERM, kill -9, then SIGSTOP and SIGCONT."""

    async def act(nemesis: Nemesis) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            await nemesis.in_the_middle()
            await nemesis.end(part, number)
            await nemesis.ground.serving()
        await nemesis.in_the_middle()
        await nemesis.freeze(part, PAUSE_S)

    return act


async def edge_killed(nemesis: Nemesis) -> None:
    broken = nemesis.load.broken
    await killed("edge")(nemesis)
    lost = nemesis.load.broken - broken
    nemesis.saw("clients lost their connections", lost > 0, str(lost))


async def worker_killed_before_the_grant(nemesis: Nemesis) -> None:
    """What is queued at a worker that never claims it waits for the next one, or is given back."""
    await nemesis.in_the_middle()
    pid = await nemesis.stop_moving(WORKER)
    begun = nemesis.load.begun
    await nemesis.until(lambda: nemesis.load.begun > begun, 15.0)
    await asyncio.sleep(1.0)
    nemesis.saw("requests came for a worker that stood still", nemesis.load.begun > begun)
    nemesis.forget_frozen(pid)
    await nemesis.send(WORKER, signal.SIGKILL)
    await nemesis.back(WORKER, pid)


async def worker_silent(nemesis: Nemesis) -> None:
    """Its lease ends while it stands still, and what it wakes up to is no longer its own."""
    await nemesis.in_the_middle()
    since_ms = wall_ms()
    await nemesis.freeze(WORKER, 2 * SESSION_S + 2)
    lost = await asyncio.to_thread(reads.leases_lost, nemesis.ground, since_ms)
    nemesis.saw("its lease ended", lost > 0, f"{lost} epochs lost")


async def worker_killed_mid_text(nemesis: Nemesis) -> None:
    since_ms = wall_ms()
    await nemesis.in_the_middle(3)
    nemesis.measured["back_s"] = round(await nemesis.end(WORKER), 2)
    await nemesis.until_so(lambda: reads.leases_lost(nemesis.ground, since_ms) > 0, 30.0)
    lost = await asyncio.to_thread(reads.leases_lost, nemesis.ground, since_ms)
    nemesis.saw("granted epochs were lost with it", lost > 0, f"{lost} epochs")


def worker_killed_at(point: str) -> Act:
    """All tokens are made; kill -9 before the row is written, or before `Finished` is told."""

    async def act(nemesis: Nemesis) -> None:
        await nemesis.in_the_middle()
        port = nemesis.ground.stack.part(WORKER).port
        assert port is not None, "a worker listens"
        waits = await nemesis.until_so(lambda: signs.metric(port, "milena_worker_paused") > 0, 30.0)
        nemesis.saw(f"an answer waited at {point}", waits)
        await nemesis.end(WORKER)

    return act


async def rolling(nemesis: Nemesis) -> None:
    """SIGTERM of everything, one after the other, as an upgrade does."""
    order = [*OURS, *STORES]
    nemesis.chance.shuffle(order)
    for part in order:
        if not nemesis.bites:
            await nemesis.in_the_middle()
        await nemesis.end(part, signal.SIGTERM)
        await nemesis.ground.serving()


async def broker_away(nemesis: Nemesis) -> None:
    """Nobody reaches the broker, which lives: connections are cut, and new ones refused."""
    proxies = nemesis.ground.proxies
    assert proxies is not None
    await nemesis.in_the_middle()
    await nemesis.proxy(proxies.kafka.refuse, "refuses", "broker")
    await nemesis.proxy(proxies.kafka.cut, "cut", "broker")
    await asyncio.sleep(AWAY_S)
    counts = proxies.kafka.counts
    nemesis.saw("connections were cut", counts.cut > 0, str(counts.cut))
    nemesis.saw("connections were refused", counts.refused > 0, str(counts.refused))


async def broker_frozen(nemesis: Nemesis) -> None:
    await nemesis.in_the_middle()
    ended = nemesis.load.ended
    await nemesis.freeze("kafka", 20.0)
    nemesis.measured["ended_while_frozen"] = nemesis.load.ended - ended


async def machine_frozen_shortly(nemesis: Nemesis) -> None:
    """Half a session: nobody takes over, nothing is fenced."""
    await nemesis.in_the_middle()
    pid = await nemesis.freeze("runs", SESSION_S / 2)
    await nemesis.ground.serving()
    nemesis.saw("it was not ended", not signs.gone(pid))


def _each_part() -> tuple[Cell, ...]:
    return tuple(
        Cell(
            name=f"restart/{part}",
            row="P1",
            what=f"SIGTERM, kill -9, then SIGSTOP for {PAUSE_S:g} s of {part}",
            act=in_turn(part),
            act_s_max=240.0,
        )
        for part in (*OURS, "redis", "cassandra")
    )


CELLS: Final = (
    Cell(
        name="edge-kill",
        row="1",
        what="kill -9 of an edge in the middle of streams",
        act=edge_killed,
        short=True,
    ),
    *(
        Cell(
            name=f"{machine}-kill",
            row="2",
            what=f"kill -9 of the {machine} machine",
            act=killed(machine),
            short=True,
        )
        for machine in ("accounts", "runs", "workers", "metering")
    ),
    Cell(
        name="closer-kill", row="1", what="kill -9 of the closer", act=killed("closer"), short=True
    ),
    Cell(
        name="worker-kill-before-grant",
        row="5",
        what="a worker stands still, requests queue at it, kill -9",
        act=worker_killed_before_the_grant,
        short=True,
    ),
    Cell(
        name="worker-kill",
        row="5",
        what="kill -9 of the worker in the middle of tokens",
        act=worker_killed_mid_text,
        short=True,
    ),
    *(
        Cell(
            name=f"worker-kill-before-{point}",
            row="5",
            what=f"kill -9 of the worker with all tokens made, before its {point}",
            act=worker_killed_at(point),
            needs=Needs.OWN,
            settings={"MILENA_INFERENCE_PAUSE_AT": point, "MILENA_INFERENCE_PAUSE_S": "2"},
        )
        for point in ("row", "finished")
    ),
    Cell(
        name="worker-freeze",
        row="6",
        what="SIGSTOP of the worker for two leases, then SIGCONT",
        act=worker_silent,
    ),
    Cell(
        name="machine-freeze",
        row="4",
        what="SIGSTOP of a machine for half a session",
        act=machine_frozen_shortly,
        short=True,
    ),
    Cell(name="broker-kill", row="8", what="kill -9 of the broker", act=killed("kafka")),
    Cell(name="broker-freeze", row="8", what="SIGSTOP of the broker for 20 s", act=broker_frozen),
    Cell(name="redis-kill", row="11", what="kill -9 of Redis", act=killed("redis"), short=True),
    Cell(
        name="redis-freeze", row="11", what="SIGSTOP of Redis for 10 s", act=frozen("redis", 10.0)
    ),
    Cell(name="store-kill", row="12", what="kill -9 of the store", act=killed("cassandra")),
    Cell(
        name="store-freeze",
        row="12",
        what="SIGSTOP of the store for 10 s",
        act=frozen("cassandra", 10.0),
    ),
    Cell(
        name="rolling",
        row="19",
        what="SIGTERM of every process in turn",
        act=rolling,
        act_s_max=400.0,
    ),
    *_each_part(),
    Cell(
        name="broker-away",
        row="P1",
        what=f"nobody reaches the broker for {AWAY_S:g} s",
        act=broker_away,
        needs=Needs.PROXIES,
        act_s_max=150.0,
        heal_s_max=150.0,
    ),
)
