"""Stop too early, twice, from another edge, in the last flush: one end that never changes, the hold
ended once, and the slot back."""

import asyncio

import pytest

from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge
from schemas.generated.types import RunKind
from tests.real.client import Answer, Client, drain, script
from tests.real.frozen import frozen_worker
from tests.real.users import Users
from tests.real.views import free, one_story, until_free
from tests.real.waiting import until

pytestmark = pytest.mark.real


async def settled(stack: FreshStack, client: Client, answer: Answer) -> dict[str, object]:
    """The four views agree, the slot is back, the next send is admitted, the end stays the end."""
    await one_story(stack, client, answer)
    before = await client.status(answer.generation_id)
    await until_free(client)
    assert (await client.ask(script(words=1))).terminal.event == "generation.completed"
    assert await client.status(answer.generation_id) == before
    return before


async def until_held(client: Client) -> None:
    """A slot is taken: the question was admitted."""

    async def held() -> bool:
        return not await free(client)

    await until(held)


@pytest.mark.parametrize("delay_ms", [0, 5, 20, 50])
async def test_a_cancel_soon_after_the_question_ends_it_once(
    stack: FreshStack, second_edge: SecondEdge, users: Users, delay_ms: int
) -> None:
    user = await users.new()
    async with Client(stack.url, user.key) as here, Client(second_edge.url, user.key) as there:
        content = script(words=500, tokens_per_s=20, prefill_ms=30)
        async with here.streaming(content) as (answer, events):
            await asyncio.sleep(delay_ms / 1_000)
            first = await there.cancel(answer.generation_id)
            again = await asyncio.gather(
                here.cancel(answer.generation_id), there.cancel(answer.generation_id)
            )
            await drain(events)
        for response in (first, *again):
            assert (response.status_code, response.json()["status"]) in (
                (202, "cancel_requested"),
                (200, "cancelled"),
            )
        assert answer.terminal.event == "generation.cancelled"
        assert len(answer.text.split()) < 400
        status = await settled(stack, here, answer)
        assert status["status"] == "cancelled"
        late = await there.cancel(answer.generation_id)
        assert (late.status_code, late.json()["status"]) == (200, "cancelled")


async def test_a_cancel_while_queued_without_a_worker_ends_at_once_and_costs_nothing(
    stack: FreshStack, second_edge: SecondEdge, users: Users
) -> None:
    user = await users.new()
    async with Client(stack.url, user.key) as here, Client(second_edge.url, user.key) as there:
        with frozen_worker(stack) as thaw:
            async with here.streaming(script(words=9), idempotency_key="q") as (answer, events):
                cancelled = await there.cancel(answer.generation_id)
                assert cancelled.status_code in (200, 202)
                again = await here.cancel(answer.generation_id)
                assert (again.status_code, again.json()["status"]) == (200, "cancelled")
                await drain(events)
            assert answer.names == ["created", "queued", "cancelled"]
            limits = (await here.limits()).values()
            assert {(limit["used"], limit["held"]) for limit in limits} == {(0, 0)}
            thaw()
            status = await settled(stack, here, answer)
        assert (status["status"], status["hold"], status["output"]) == (
            "cancelled",
            "released",
            None,
        )
        facts = await one_story(stack, here, answer)
        assert RunKind.GRANTED not in [fact.kind for fact in facts.runs]
        # Its user cancelled it, so the key keeps this end.
        replayed = await there.ask(script(words=9), idempotency_key="q")
        assert replayed.headers["idempotent-replayed"] == "true"
        assert replayed.terminal.event == "generation.cancelled"
        assert replayed.generation_id == answer.generation_id


@pytest.mark.parametrize("delay_ms", [60, 110, 160])
async def test_a_cancel_in_the_last_flush_is_an_end_or_comes_too_late(
    stack: FreshStack, second_edge: SecondEdge, users: Users, delay_ms: int
) -> None:
    user = await users.new()
    async with Client(stack.url, user.key) as here, Client(second_edge.url, user.key) as there:
        async with here.streaming(script(words=11, tokens_per_s=100)) as (answer, events):
            await asyncio.sleep(delay_ms / 1_000)
            response = await there.cancel(answer.generation_id)
            await drain(events)
        end = answer.terminal.event.removeprefix("generation.")
        assert end in ("completed", "cancelled")
        assert response.json()["status"] in ("cancel_requested", "cancelled", "completed")
        if response.status_code == 200:
            assert response.json()["status"] == end, "what was told as the end is the end"
        status = await settled(stack, here, answer)
        assert status["status"] == end


async def test_a_cancelled_answer_in_one_piece_is_told_as_that(ann: Client) -> None:
    content = script(words=500, tokens_per_s=50)
    asked = asyncio.create_task(ann.once(content, idempotency_key="whole"))
    await until_held(ann)
    busy = await ann.once(content, idempotency_key="whole")
    assert busy.status_code == 409
    await ann.cancel(busy.headers["x-generation-id"])
    document = (await asked).json()
    assert document["status"] == "cancelled"
    assert document["usage"]["output_tokens"] < 500
