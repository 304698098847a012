"""kill -9 of each part during an answer: one end, one hold, and the slot comes back.

Which end it is, depends on who died (design, section 4): with `on_worker_loss = fail` a dead worker's
answer is an error that keeps its text; a dead machine, closer or edge costs nobody an answer.
"""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator

import httpx2
import pytest

from connectors.sse.parser import Event
from ops.stack.fresh import FreshStack
from schemas.generated.types import RunKind
from tests.real.client import Client, script
from tests.real.log import Facts, facts_once
from tests.real.waiting import until

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]
LONG = script(words=400, tokens_per_s=40)


async def _ended(client: Client, generation_id: str) -> bool:
    return (await client.status(generation_id))["status"] in {"completed", "cancelled", "failed"}


async def _drain(events: AsyncIterator[Event]) -> None:
    async for _ in events:
        pass


async def _free(client: Client) -> bool:
    limits = await client.limits()
    return all(limit["held"] == 0 for limit in limits.values()) and all(
        limit["used"] == 0 for limit in limits.values() if not limit["window_s"]
    )


def _consumed(facts: Facts) -> bool:
    return any(fact.kind == "consumed" for fact in facts.settlement)


async def _settled_once(stack: FreshStack, client: Client, generation_id: str) -> None:
    """The hold ended once, the slot is free, usage was metered once."""
    await until(lambda: _free(client), s_max=40)
    settlement = await facts_once(
        stack, generation_id, lambda facts: bool(facts.usage) or not _consumed(facts)
    )
    kinds = [fact.kind for fact in settlement.settlement]
    assert sorted(kinds) in (["consumed", "settled"], ["released"]), kinds
    assert [fact.kind for fact in settlement.runs].count(RunKind.ENDED) == 1
    if "consumed" in kinds:
        assert len(settlement.usage) == 1


@pytest.mark.parametrize("part", ["accounts", "runs", "workers", "metering", "closer"])
async def test_a_killed_machine_costs_nobody_an_answer(
    stack: FreshStack, paid_key: str, part: str
) -> None:
    async with Client(stack.url, paid_key) as client:
        async with client.streaming(script(words=120, tokens_per_s=40)) as (answer, events):
            async for event in events:
                if event.event.endswith("text.delta"):
                    break
            pid = stack.hurt(part, signal.SIGKILL)
            async for _ in events:
                pass
        assert answer.terminal.event == "generation.completed"
        assert answer.data()["usage"]["output_tokens"] == 120
        await asyncio.to_thread(stack.back, part, pid)
        await asyncio.to_thread(stack.serving)
        await _settled_once(stack, client, answer.generation_id)
        assert (await client.status(answer.generation_id))["status"] == "completed"
        assert (await client.ask(script(words=2))).terminal.event == "generation.completed"


async def test_a_worker_killed_mid_text_ends_in_an_error_that_keeps_the_text(
    stack: FreshStack, paid_key: str
) -> None:
    async with Client(stack.url, paid_key) as client:
        async with client.streaming(LONG) as (answer, events):
            async for event in events:
                if event.event.endswith("text.delta"):
                    break
            pid = stack.hurt("worker-scripted", signal.SIGKILL)
            async for _ in events:
                pass
        assert answer.terminal.event == "generation.error"
        data = answer.data()
        assert (data["code"], data["action"]) == ("model_backend_error", "manual_regenerate")
        assert data["partial"] is True
        status = await client.status(answer.generation_id)
        assert (status["status"], status["hold"]) == ("failed", "consumed")
        assert status["output"][0]["text"] == answer.text != ""
        await asyncio.to_thread(stack.back, "worker-scripted", pid)
        await asyncio.to_thread(stack.serving)
        await _settled_once(stack, client, answer.generation_id)
        assert (await client.ask(script(words=2))).terminal.event == "generation.completed"


async def test_a_worker_killed_before_its_grant_leaves_the_request_to_the_next_life(
    stack: FreshStack, paid_key: str
) -> None:
    async with Client(stack.url, paid_key) as client:
        frozen = stack.hurt("worker-scripted", signal.SIGSTOP)
        async with client.streaming(script(words=5)) as (answer, events):
            async for event in events:
                if event.event == "generation.queued":
                    break
            stack.hurt("worker-scripted", signal.SIGKILL)
            async for _ in events:
                pass
        # Started again within its queue wait it serves the request; otherwise the hold is released.
        assert answer.terminal.event in {"generation.completed", "generation.error"}
        if answer.terminal.event == "generation.error":
            assert answer.data()["code"] == "capacity_exhausted"
            assert answer.data()["partial"] is False
        await asyncio.to_thread(stack.back, "worker-scripted", frozen)
        await asyncio.to_thread(stack.serving)
        await _settled_once(stack, client, answer.generation_id)


async def test_a_killed_edge_loses_its_sockets_and_no_answer(
    stack: FreshStack, paid_key: str
) -> None:
    key = uuid.uuid4().hex
    content = script(words=200, tokens_per_s=60)
    async with (
        Client(stack.url, paid_key) as client,
        client.streaming(content, idempotency_key=key) as (answer, events),
    ):
        generation_id = answer.generation_id
        async for event in events:
            if event.event.endswith("text.delta"):
                break
        pid = stack.hurt("edge", signal.SIGKILL)
        with pytest.raises(httpx2.TransportError):
            await _drain(events)
    await asyncio.to_thread(stack.back, "edge", pid)
    await asyncio.to_thread(stack.serving)
    async with Client(stack.url, paid_key) as client:
        resumed = await client.resume(generation_id)
        assert resumed.terminal.event == "generation.completed"
        assert resumed.data()["usage"]["output_tokens"] == 200
        replayed = await client.ask(content, idempotency_key=key)
        assert (replayed.generation_id, replayed.text) == (generation_id, resumed.text)
        await _settled_once(stack, client, generation_id)
