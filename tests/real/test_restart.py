"""A stack stopped and started again: a finished answer is still answered, its key known, its cost kept.

Runs over a stack of its own, so that no other test loses its processes; the registry and the large
workers are left out, for nothing here needs them.
"""

import asyncio
import uuid
from pathlib import Path

import pytest

from ops.stack.fresh import FreshStack
from tests.real.client import Client, script
from tests.real.edges import PATIENT

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]
PARTS = (
    "kafka,cassandra,redis,topics,store,keys,"
    "accounts,runs,workers,metering,closer,worker-scripted,edge"
)


async def test_a_finished_generation_outlives_the_stack(tmp_path: Path) -> None:
    stack = FreshStack(tmp_path / "data", {**PATIENT, "MILENA_STACK_PARTS": PARTS})
    key, content = uuid.uuid4().hex, script(text="it stays")
    try:
        await asyncio.to_thread(stack.start)
        paid_key = stack.seeded_keys()["paid"]
        async with Client(stack.url, paid_key) as client:
            first = await client.ask(content, idempotency_key=key)
            before = await client.limits()
        assert await asyncio.to_thread(stack.stop) == 0
        await asyncio.to_thread(stack.start)
        assert stack.seeded_keys()["paid"] == paid_key
        async with Client(stack.url, paid_key) as client:
            status = await client.status(first.generation_id)
            assert status["status"] == "completed"
            assert status["output"] == [{"type": "text", "text": "it stays"}]
            again = await client.ask(content, idempotency_key=key)
            assert again.headers["idempotent-replayed"] == "true"
            assert (again.generation_id, again.text) == (first.generation_id, "it stays")
            assert (await client.limits())["messages"] == before["messages"]
            more = await client.ask(script(words=2))
            assert more.terminal.event == "generation.completed"
    finally:
        await asyncio.to_thread(stack.stop)
