"""Runs the levels of the benchmark over a stack of its own and gathers the numbers."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from ops.bench.client import Timed, ask, now_ms
from ops.bench.cpu import by_part, difference
from ops.bench.hops import Row, table
from ops.bench.marks import read_marks
from ops.stack.fresh import FreshStack

LEVELS: Final = (1, 16, 64)
TOKENS: Final = 40
TOKENS_PER_S: Final = 40

Say = Callable[[str], None]


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """What one number of concurrent streams gave."""

    concurrent: int
    streams: int
    wall_s: float
    refusals: int
    """Attempts answered 503 and made again under the same key."""
    rows: list[Row]
    cpu_s_per_1000: dict[str, float]
    """CPU seconds for a thousand streams, by part."""


def body_of() -> bytes:
    """The request: a scripted answer of 40 tokens, 25 ms apart, without prefill."""
    script = {"script": {"words": TOKENS, "tokens_per_s": TOKENS_PER_S, "prefill_ms": 0}}
    return msgspec.json.encode(
        {
            "model": "scripted",
            "messages": [{"role": "user", "content": msgspec.json.encode(script).decode()}],
            "stream": True,
            "max_output_tokens": 1_000,
        }
    )


def run(levels: tuple[int, ...], streams_a_slot: int, say: Say) -> list[Level]:
    """Starts a stack, warms it, runs each level, stops the stack."""
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as folder:
        limits = {
            "MILENA_ACCOUNTS_MESSAGES_MAX_PAID": "1000000",
            "MILENA_ACCOUNTS_SLOTS_MAX_PAID": "8",
        }
        stack = FreshStack(Path(folder), limits)
        say("starting a stack of its own")
        stack.start()
        try:
            keys = stack.new_keys(max(levels))
            say("warming")
            asyncio.run(_level(stack, keys, min(8, max(levels)), 4))
            return [_measure(stack, keys, level, streams_a_slot, say) for level in levels]
        finally:
            stack.stop()


def _measure(
    stack: FreshStack, keys: list[str], concurrent: int, streams_a_slot: int, say: Say
) -> Level:
    bootstrap = f"127.0.0.1:{stack.base + 10}"
    say(f"{concurrent} concurrent streams, {concurrent * streams_a_slot} in all")
    cpu_before, began_ms = by_part(stack.status()), now_ms()
    answers = asyncio.run(_level(stack, keys, concurrent, streams_a_slot))
    wall_s = (now_ms() - began_ms) / 1_000
    used = difference(cpu_before, by_part(stack.status()))
    share = 1_000 / len(answers)
    return Level(
        concurrent=concurrent,
        streams=len(answers),
        wall_s=round(wall_s, 2),
        refusals=sum(timed.refusals for timed in answers),
        rows=table(answers, read_marks(bootstrap, int(began_ms))),
        cpu_s_per_1000={name: round(seconds * share, 2) for name, seconds in used.items()},
    )


async def _level(
    stack: FreshStack, keys: list[str], concurrent: int, streams_a_slot: int
) -> list[Timed]:
    body = body_of()

    async def slot(number: int) -> list[Timed]:
        # Spread the starts over one answer's length: a fair mix instead of one wave.
        await asyncio.sleep(number / concurrent * TOKENS / TOKENS_PER_S)
        return [
            await ask(stack.base, keys[number], uuid.uuid4().hex, body)
            for _ in range(streams_a_slot)
        ]

    done = await asyncio.gather(*(slot(number) for number in range(concurrent)))
    return [timed for answers in done for timed in answers]
