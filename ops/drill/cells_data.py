"""Cells about what the parts hold: Redis emptied, cut off and full; the store silent; poison and repeats on
the log. Rows 11, 12, 15 and 16, and case P2."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from redis import Redis

from ops.drill import poison, reads
from ops.drill.cell import Act, Cell, Needs
from ops.drill.nemesis import Nemesis
from ops.drill.proxy import Way
from topics.registry import ACCOUNTS_INBOX, METERING_INBOX, RUNS_INBOX, WORKERS_INBOX
from topics.runtime.clock import wall_ms

ROOM_BYTES: Final = 1_024
FULL_S: Final = 8.0
STORE_SILENT_S: Final = 7.0
"""Longer than a statement's deadline: what was written is unknown to who wrote it."""


async def flushed(nemesis: Nemesis) -> None:
    """Every stream and control hash is gone at once."""
    await nemesis.in_the_middle(3)
    redis = _redis(nemesis)
    had = int(await asyncio.to_thread(redis.dbsize))
    await asyncio.to_thread(redis.flushall)
    nemesis.note("FLUSHALL", "redis")
    nemesis.saw("it held streams", had > 0, f"{had} keys")
    await asyncio.to_thread(redis.close)


async def clients_killed(nemesis: Nemesis) -> None:
    """Every connection to Redis ends, the pushing ones first, then all."""
    redis = _redis(nemesis)
    for kind in ("pubsub", "normal"):
        await nemesis.in_the_middle()
        count = int(await asyncio.to_thread(redis.execute_command, "CLIENT", "KILL", "TYPE", kind))
        nemesis.note(f"CLIENT KILL TYPE {kind}", "redis")
        nemesis.saw(f"{kind} connections were ended", count > 0, str(count))
        await nemesis.ground.serving()
    await asyncio.to_thread(redis.close)


def full(policy: str) -> Act:
    """No room for more, under one policy; then it has room again."""

    async def act(nemesis: Nemesis) -> None:
        redis = _redis(nemesis)
        evicting = policy != "noeviction"
        await nemesis.in_the_middle(3)
        before = await asyncio.to_thread(_full_signs, redis)
        room = await asyncio.to_thread(_config, redis, "maxmemory")
        try:
            await asyncio.to_thread(redis.config_set, "maxmemory-policy", policy)
            await _tighten(redis, 1.0)
            nemesis.note(f"full, {policy}", "redis")
            if evicting:
                told = await nemesis.until_so(lambda: not nemesis.ground.second.ready, 15.0)
                nemesis.saw("an edge reports the policy", told)
            await _tighten(redis, FULL_S)
            after = await asyncio.to_thread(_full_signs, redis)
        finally:
            await asyncio.to_thread(redis.config_set, "maxmemory", room)
            await asyncio.to_thread(redis.config_set, "maxmemory-policy", "noeviction")
            nemesis.note("has room", "redis")
            await asyncio.to_thread(redis.close)
        sign = "evicted" if evicting else "refused"
        count = after[sign] - before[sign]
        nemesis.saw(f"keys or writes were {sign}", count > 0, str(count))

    return act


async def store_silent(nemesis: Nemesis) -> None:
    """The store does what it is asked, and its answers do not arrive."""
    proxies = nemesis.ground.proxies
    assert proxies is not None
    await nemesis.in_the_middle()
    await nemesis.proxy(lambda: proxies.store.freeze(Way.DOWN), "answers held back", "store")
    await asyncio.sleep(STORE_SILENT_S)
    held = proxies.store.counts.frozen_bytes
    nemesis.saw("answers were held back", held > 0, f"{held} bytes")
    await nemesis.proxy(proxies.store.heal, "answers again", "store")
    cut = int(await proxies.do(proxies.store.cut))
    nemesis.saw("connections were cut", cut > 0, str(cut))


async def poisoned(nemesis: Nemesis) -> None:
    """What nobody can read, and what was never meant to be: each goes aside, and all others go on."""
    await nemesis.in_the_middle()
    since_ms = wall_ms()
    bootstrap = nemesis.ground.bootstrap
    for machine, inbox in (("accounts", ACCOUNTS_INBOX), ("runs", RUNS_INBOX)):
        sent = await asyncio.to_thread(poison.unreadable, bootstrap, inbox)
        nemesis.note(f"{sent} records nobody can read", inbox.name)
        refused = await asyncio.to_thread(poison.too_large, bootstrap, inbox)
        nemesis.saw(f"{inbox.name}: 2 MB were refused by the broker", refused)
        aborted = await asyncio.to_thread(poison.aborted, bootstrap, inbox)
        nemesis.note("an aborted transaction in every partition", inbox.name)
        nemesis.saw(f"{inbox.name}: an aborted transaction is in the log", aborted > 0)

        def aside(name: str = machine, count: int = sent) -> bool:
            return reads.dead_letters(nemesis.ground, name, since_ms) >= count

        nemesis.saw(f"{machine} put {sent} aside", await nemesis.until_so(aside, 20.0))


async def replayed(nemesis: Nemesis) -> None:
    """Every record of the cell so far comes once more, in order, behind the new ones."""
    since_ms = wall_ms()
    await nemesis.load.until_ended(12)
    for inbox in (ACCOUNTS_INBOX, RUNS_INBOX, METERING_INBOX, WORKERS_INBOX):
        count = await asyncio.to_thread(
            poison.replay, nemesis.ground.bootstrap, inbox, since_ms - 5_000
        )
        nemesis.note(f"{count} records again", inbox.name)
        nemesis.saw(f"{inbox.name} was replayed", count > 0, f"{count} records")
    await nemesis.in_the_middle()


def _redis(nemesis: Nemesis) -> Redis:
    return Redis(port=nemesis.ground.stack.base + 14, socket_timeout=5.0, decode_responses=True)


def _info(redis: Redis, section: str) -> dict[str, Any]:
    told: dict[str, Any] = redis.info(section)
    return told


def _config(redis: Redis, name: str) -> str:
    told: dict[str, str] = redis.config_get(name)  # type: ignore[assignment]
    return told[name]


async def _tighten(redis: Redis, seconds: float) -> None:
    """Keeps the bound just above what is used, again and again: what was freed is gone at once."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        used = int((await asyncio.to_thread(_info, redis, "memory"))["used_memory"])
        await asyncio.to_thread(redis.config_set, "maxmemory", str(used + ROOM_BYTES))
        await asyncio.sleep(0.1)


def _full_signs(redis: Redis) -> dict[str, int]:
    errors = _info(redis, "errorstats").get("errorstat_OOM", {})
    refused = errors.get("count", 0) if isinstance(errors, dict) else 0
    return {"evicted": int(_info(redis, "stats")["evicted_keys"]), "refused": int(refused)}


CELLS: Final = (
    Cell(name="redis-flushed", row="11", what="FLUSHALL in the middle", act=flushed, short=True),
    Cell(
        name="redis-clients-killed",
        row="11",
        what="every connection to Redis ends, twice",
        act=clients_killed,
        short=True,
    ),
    *(
        Cell(
            name=f"redis-full/{policy}",
            row="P2",
            what=f"Redis is full under {policy}, then has room again",
            act=full(policy),
        )
        for policy in ("noeviction", "allkeys-lru", "volatile-lru")
    ),
    Cell(
        name="store-silent",
        row="12",
        what=f"the store's answers are held back for {STORE_SILENT_S:g} s: written, and nobody knows",
        act=store_silent,
        needs=Needs.PROXIES,
    ),
    Cell(
        name="poison",
        row="15",
        what="unreadable, empty, foreign and too large records, tombstones, aborted transactions",
        act=poisoned,
        short=True,
    ),
    Cell(
        name="replay",
        row="16",
        what="every inbox of the cell replayed behind itself",
        act=replayed,
    ),
)
