"""One question, answered through the log: streamed, whole, repeated, refused, stopped, counted once."""

import asyncio
import json
import uuid

import httpx2
import pytest

from ops.stack.fresh import FreshStack
from tests.real.client import Answer, Client, script
from tests.real.waiting import until

pytestmark = pytest.mark.real


async def test_a_real_model_streams_an_answer(stack: FreshStack, paid_key: str) -> None:
    async with Client(stack.url, paid_key) as client:
        answer = await client.ask("What is TCP?", model="flagship", max_output_tokens=24)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store, no-transform"
        assert answer.headers["x-accel-buffering"] == "no"
        assert answer.names[:2] == ["created", "queued"]
        assert answer.terminal.event == "generation.completed"
        assert answer.text
        usage = answer.data()["usage"]
        assert 0 < usage["output_tokens"] <= 24
        status = await client.status(answer.generation_id)
        assert status["output"] == [{"type": "text", "text": answer.text}]
        assert (status["status"], status["hold"]) == ("completed", "consumed")
        assert status["usage"] == usage


async def test_created_has_no_id_and_ids_grow_without_a_gap(
    stack: FreshStack, paid_key: str
) -> None:
    async with Client(stack.url, paid_key) as client:
        answer = await client.ask(script(words=60, tokens_per_s=60))
    assert answer.raw.startswith(b"event: generation.created\ndata: ")
    created = answer.data(0)
    assert created["sequence"] == 0
    assert created["status"] == "queued"
    ids = [line[4:].decode() for line in answer.raw.split(b"\n") if line.startswith(b"id: ")]
    epochs = {event_id.split("-")[0] for event_id in ids[:-1]}
    assert epochs == {"1"}
    numbers = [int(event_id.split("-")[1]) for event_id in ids]
    assert numbers == list(range(1, len(ids) + 1))
    assert [
        event["sequence"] for event in map(json.loads, (e.data for e in answer.events[2:]))
    ] == numbers


async def test_the_same_key_replays_and_counts_once(stack: FreshStack, paid_key: str) -> None:
    key = uuid.uuid4().hex
    async with Client(stack.url, paid_key) as client:
        first = await client.ask(script(words=8), idempotency_key=key)
        again = await client.ask(script(words=8), idempotency_key=key)
        whole = await client.once(script(words=8), idempotency_key=key)
        assert first.status == again.status == whole.status_code == 200
        assert again.headers["idempotent-replayed"] == "true"
        assert whole.headers["idempotent-replayed"] == "true"
        assert again.text == first.text == whole.json()["output"][0]["text"]
        assert again.generation_id == first.generation_id == whole.json()["id"]
        assert again.terminal.event == "generation.completed"
        used = [limit["used"] for limit in (await client.limits()).values() if limit["window_s"]]
        assert used == [1]


async def test_another_body_under_a_key_is_a_conflict(stack: FreshStack, paid_key: str) -> None:
    key = uuid.uuid4().hex
    async with Client(stack.url, paid_key) as client:
        await client.ask(script(words=2), idempotency_key=key)
        conflict = await client.ask(script(words=3), idempotency_key=key)
    assert (conflict.status, conflict.error["code"]) == (409, "idempotency_conflict")
    assert conflict.headers["x-should-retry"] == "false"


async def test_the_same_key_while_running_is_in_progress_or_reattaches(
    stack: FreshStack, paid_key: str
) -> None:
    key = uuid.uuid4().hex
    content = script(words=60, tokens_per_s=40)
    async with Client(stack.url, paid_key) as client, Client(stack.url, paid_key) as other:
        async with client.streaming(content, idempotency_key=key) as (answer, events):
            async for event in events:
                if event.event.endswith("text.delta"):
                    break
            busy = await other.ask(content, idempotency_key=key)
            assert (busy.status, busy.error["code"]) == (409, "generation_in_progress")
            assert busy.error["details"]["generation_id"] == answer.generation_id
            joined = asyncio.create_task(
                other.ask(content, idempotency_key=key, headers={"Prefer": "reattach"})
            )
            async for _ in events:
                pass
            again = await joined
        assert again.generation_id == answer.generation_id
        assert again.text == answer.text


async def test_without_a_stream_the_answer_is_one_document(
    stack: FreshStack, paid_key: str
) -> None:
    async with Client(stack.url, paid_key) as client:
        response = await client.once(script(text="one two three", cached_tokens=1))
        assert response.status_code == 200
        body = response.json()
        assert response.headers["x-generation-id"] == body["id"]
        assert response.headers["cache-control"] == "no-store"
        assert body["status"] == "completed"
        assert body["output"] == [{"type": "text", "text": "one two three"}]
        assert body["finish_reason"] == "stop"
        assert body["usage"]["output_tokens"] == 3
        assert body["usage"]["cached_input_tokens"] == 1


async def test_output_ends_at_its_bound_with_true_usage(stack: FreshStack, paid_key: str) -> None:
    async with Client(stack.url, paid_key) as client:
        for model, content in (("scripted", script(words=9)), ("flagship", "Count to ten.")):
            response = await client.once(content, model=model, max_output_tokens=1)
            body = response.json()
            assert body["finish_reason"] == "length"
            assert body["usage"]["output_tokens"] == 1


async def test_cancel_stops_the_engine_and_keeps_what_was_written(
    stack: FreshStack, paid_key: str
) -> None:
    async with Client(stack.url, paid_key) as client, Client(stack.url, paid_key) as other:
        async with client.streaming(script(words=2_000, tokens_per_s=50)) as (answer, events):
            async for event in events:
                if event.event.endswith("text.delta"):
                    break
            first = await other.cancel(answer.generation_id)
            assert (first.status_code, first.json()) == (202, {"status": "cancel_requested"})
            async for _ in events:
                pass
        assert answer.terminal.event == "generation.cancelled"
        status = await client.status(answer.generation_id)
        assert (status["status"], status["hold"]) == ("cancelled", "consumed")
        assert status["output"][0]["text"] == answer.text != ""
        assert 0 < status["usage"]["output_tokens"] < 1_000
        again = await other.cancel(answer.generation_id)
        assert (again.status_code, again.json()["status"]) == (200, "cancelled")
        await until(lambda: _slots_free(client))


async def _slots_free(client: Client) -> bool:
    limits = await client.limits()
    return all(limit["held"] == 0 for limit in limits.values()) and all(
        limit["used"] == 0 for limit in limits.values() if not limit["window_s"]
    )


async def test_slots_bound_what_runs_at_once_and_come_back(
    stack: FreshStack, free_key: str
) -> None:
    async with Client(stack.url, free_key) as client:
        content = script(words=100, tokens_per_s=50)
        async with client.streaming(content) as (first, one), client.streaming(content) as (_, two):
            refused = await client.ask(script(words=1))
            assert (refused.status, refused.error["code"]) == (429, "concurrency_limited")
            assert refused.error["retryable"] is True
            assert int(refused.headers["retry-after"]) >= 1
            async for _ in one:
                pass
            async for _ in two:
                pass
        assert first.terminal.event == "generation.completed"
        await until(lambda: _slots_free(client))
        assert (await client.ask(script(words=1))).status == 200


async def test_a_spent_quota_is_refused_with_its_reset_and_costs_nothing(
    stack: FreshStack, free_key: str
) -> None:
    async with Client(stack.url, free_key) as client:

        async def one() -> Answer:
            while True:
                answer = await client.ask(script(words=1))
                if answer.status == 200 or answer.error["code"] == "quota_exhausted":
                    return answer
                assert answer.error["code"] == "concurrency_limited"
                await until(lambda: _slots_free(client))

        answers = [await one() for _ in range(41)]
        assert [answer.status for answer in answers] == [200] * 40 + [429]
        refusal = answers[-1].error
        assert refusal["retryable"] is False
        details = refusal["details"]
        assert (details["limit"], details["remaining"]) == (40, 0)
        assert details["reset_at"].endswith("Z")
        assert answers[-1].headers["x-should-retry"] == "false"
        (window,) = [limit for limit in (await client.limits()).values() if limit["window_s"]]
        assert (window["used"], window["held"], window["remaining"]) == (40, 0, 0)


async def test_a_late_reader_gets_the_same_text_from_the_start_and_after_an_id(
    stack: FreshStack, paid_key: str
) -> None:
    async with Client(stack.url, paid_key) as client:
        answer = await client.ask(script(words=40, tokens_per_s=60))
        whole = await client.resume(answer.generation_id)
        assert whole.text == answer.text
        assert whole.terminal == answer.terminal
        middle = next(event for event in answer.events if event.event.endswith("text.delta"))
        rest = await client.resume(answer.generation_id, middle.id)
        ids = [event.id for event in answer.events if event.id]
        assert [event.id for event in rest.events if event.id] == ids[ids.index(middle.id) + 1 :]
        past = await client.resume(answer.generation_id, answer.terminal.id)
        assert [name for name in past.names if name != "created"] == []


async def test_no_key_and_a_wrong_key_are_refused(stack: FreshStack) -> None:
    async with httpx2.AsyncClient(base_url=stack.url) as http:
        for headers in ({}, {"Authorization": "Bearer mk_unknown"}, {"Authorization": "Basic x"}):
            for method, path in (
                ("POST", "/v1/generations"),
                ("GET", "/v1/limits"),
                ("GET", "/v1/generations/gen_01JDYYYYYYYYYYYYYYYYYYYYYY"),
                ("POST", "/v1/generations/gen_01JDYYYYYYYYYYYYYYYYYYYYYY/cancel"),
                ("GET", "/v1/generations/gen_01JDYYYYYYYYYYYYYYYYYYYYYY/stream"),
            ):
                response = await http.request(method, path, headers=headers)
                assert response.status_code == 401, path
                assert response.json()["error"]["code"] == "unauthorized"
