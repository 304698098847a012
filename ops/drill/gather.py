"""Collects the evidence of one cell: its history, the log since its start, the store's rows, the proof.

Owns the reading; judges nothing. Other cells' generations are left out: they are not this cell's promise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import psutil
from confluent_kafka import KafkaException

from connectors.store.cql import CqlStore
from connectors.store.rows import Result
from ops import log_scan
from ops.drill.evidence import TOPICS, Evidence, Life, Memory, Seen, lives_of
from ops.drill.ground import OURS, Ground
from ops.verify.findings import Difference, Unjudged
from ops.verify.prove import FOREVER_MS, Span, prove
from ops.verify.source import BrokerSource
from processors.machines import MACHINES
from topics.runtime.clock import wall_ms

READS_AT_ONCE: Final = 16
BEFORE_MS: Final = 2_000
"""Append times are the broker's, the cell's start is ours."""


def memory_of(ground: Ground) -> dict[str, int]:
    """Resident bytes of each of our processes; one that does not run is left out."""
    found = {}
    for part in ground.stack.status().parts:
        if part.name in OURS and part.pid is not None:
            try:
                found[part.name] = psutil.Process(part.pid).memory_info().rss
            except psutil.NoSuchProcess:
                continue
    return found


async def gather(
    ground: Ground,
    seen: Sequence[Seen],
    *,
    began_ms: int,
    healed_ms: int,
    answer_s_max: float,
    before: Mapping[str, int],
) -> Evidence:
    """Everything of one cell, once all is quiet."""
    since_ms = began_ms - BEFORE_MS
    differences, unjudged = await asyncio.to_thread(_proof, ground, since_ms)
    lives = await asyncio.to_thread(_lives, ground.bootstrap, since_ms, {s.user_id for s in seen})
    names = {one.generation_id for one in seen if one.generation_id} | set(lives)
    rows = await _rows(ground.store, names)
    after = await asyncio.to_thread(memory_of, ground)
    return Evidence(
        seen=seen,
        lives=lives,
        rows=rows,
        healed_ms=healed_ms,
        read_ms=wall_ms(),
        answer_s_max=answer_s_max,
        differences=differences,
        unjudged=unjudged,
        memory=[
            Memory(part, before[part], after[part]) for part in sorted(before.keys() & after.keys())
        ],
    )


def _lives(bootstrap: str, since_ms: int, users: set[str]) -> dict[str, Life]:
    found = lives_of(log_scan.records(bootstrap, TOPICS, since_ms))
    return {name: life for name, life in found.items() if _users(life) & users}


def _users(life: Life) -> set[str]:
    return {
        *(fact.user_id for fact in life.admission),
        *(fact.user_id for fact in life.settlement),
        *(fact.user_id for fact in life.runs),
    }


async def _rows(store: CqlStore, names: Iterable[str]) -> dict[str, Result]:
    few = asyncio.Semaphore(READS_AT_ONCE)

    async def one(name: str) -> Result | None:
        async with few:
            return await store.result(name)

    listed = sorted(names)
    rows = await asyncio.gather(*(one(name) for name in listed))
    return {
        name: row for name, row in zip(listed, rows, strict=True) if row is not None and row.ended
    }


def _proof(ground: Ground, since_ms: int) -> tuple[Sequence[Difference], str]:
    """What `milena verify` says of the cell's time: differences, or why it cannot say."""
    machines = [make(ground.stack.env) for make in MACHINES.values()]
    span = Span(since_ms, FOREVER_MS)
    try:
        with BrokerSource(ground.bootstrap) as source:
            proof = prove(source, machines, span, local=True, say=lambda _: None)
    except Unjudged as error:
        return (), str(error)
    except KafkaException as error:
        return (), f"the broker does not answer: {error}"
    return proof.differences, ""
