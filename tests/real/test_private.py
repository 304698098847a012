"""Private text stays out of the log: a canary is found in no topic, log file or metric."""

import asyncio
import uuid

import httpx2
import pytest

from ops.log_scan import records
from ops.stack.fresh import FreshStack
from ops.stack.plan import CLOSER_PORT, MACHINE_PORTS, POOL_PORTS
from tests.real.client import Client, script
from topics.registry import TOPICS

pytestmark = pytest.mark.real


async def test_a_canary_is_found_in_no_topic_log_or_metric(
    stack: FreshStack, paid_key: str
) -> None:
    canary = f"canary{uuid.uuid4().hex}"
    async with Client(stack.url, paid_key) as client:
        key = f"key-{canary}"
        answer = await client.ask(script(text=f"the {canary} sings"), idempotency_key=key)
        assert canary in answer.text
        real = await client.ask(
            f"Say {canary}.", model="flagship", max_output_tokens=8, stop=[canary]
        )
        assert real.terminal.event == "generation.completed"
        await client.ask(f"{canary} " * 40_000)  # refused for its size
        await client.http.get(f"/v1/generations/{canary}")
        await client.http.post("/v1/generations", content=f'{{"{canary}": [')
        mid = script(text=f"{canary} " * 300, tokens_per_s=50)
        async with client.streaming(mid) as (cancelled, events):
            async for event in events:
                if event.event.endswith("text.delta"):
                    await client.cancel(cancelled.generation_id)
    needles = (canary.encode(), paid_key.encode())
    await asyncio.to_thread(_search_topics, stack, needles)
    for log in (stack.data / "logs").glob("*"):
        found = log.read_bytes()
        assert not any(needle in found for needle in needles), log.name
    base = stack.base
    ports = (1, CLOSER_PORT, *MACHINE_PORTS.values(), *POOL_PORTS.values())
    async with httpx2.AsyncClient() as http:
        for port in ports:
            metrics = (await http.get(f"http://127.0.0.1:{base + port}/metrics")).content
            assert metrics
            assert not any(needle in metrics for needle in needles), port


def _search_topics(stack: FreshStack, needles: tuple[bytes, ...]) -> None:
    read = 0
    for record in records(f"127.0.0.1:{stack.base + 10}", TOPICS, 0):
        read += 1
        raw = record.key.encode() + (record.value or b"")
        assert not any(needle in raw for needle in needles), record.topic
    assert read > 20, "the search read the log"
