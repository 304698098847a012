"""A resume id from anywhere: a valid one means strictly after, any other the whole text, which says so."""

import asyncio

import pytest
import redis

from connectors.redis.layout import control_key, stream_key
from connectors.sse.parser import Event
from ops.stack.fresh import FreshStack
from tests.real.client import Answer, Client, drain, script
from tests.real.views import check_bytes
from tests.real.waiting import until_so

pytestmark = pytest.mark.real
CONTENT = script(words=40, tokens_per_s=40)
NO_IDS = (
    "0-0",
    "9-999",
    "2-1",
    "1-0",
    "01-1",
    "-1-1",
    "1-1x",
    "abc",
    "",
    "1" * 10_000,
    "1-1, 1-2",
)


def after(answer: Answer, last_event_id: str) -> list[Event]:
    """The events of the whole answer that follow an id."""
    with_id = [event for event in answer.events if event.id]
    return with_id[[event.id for event in with_id].index(last_event_id) + 1 :]


def check_anew(answer: Answer, whole: str) -> None:
    """From the start: said by a whole text that replaces what the reader has."""
    check_bytes(answer.raw)
    assert "snapshot" in answer.names
    assert answer.names.index("snapshot") < min(
        at for at, name in enumerate(answer.names) if name not in ("created", "queued", "snapshot")
    )
    assert answer.text == whole
    assert answer.terminal.event == "generation.completed"


async def test_any_id_while_it_runs(ann: Client) -> None:
    async with ann.streaming(CONTENT) as (answer, events):
        reading = asyncio.create_task(drain(events))
        await until_so(lambda: answer.names.count("text.delta") >= 2)
        generation_id = answer.generation_id
        middle = answer.events[2].id
        anew, rest = await asyncio.gather(
            asyncio.gather(*(ann.resume(generation_id, no_id) for no_id in NO_IDS)),
            ann.resume(generation_id, middle),
        )
        await reading
    assert rest.events == after(answer, middle)
    for found in anew:
        check_anew(found, answer.text)


async def test_any_id_when_it_is_over_and_when_its_stream_is_gone(
    stack: FreshStack, ann: Client
) -> None:
    answer = await ann.ask(CONTENT)
    generation_id = answer.generation_id
    ids = [event.id for event in answer.events if event.id]
    for seen in ids[:-1]:
        assert (await ann.resume(generation_id, seen)).events == after(answer, seen)
    assert (await ann.resume(generation_id, ids[-1])).events == [], "the terminal's id ends at once"
    for no_id in NO_IDS:
        check_anew(await ann.resume(generation_id, no_id), answer.text)
    with redis.Redis(port=stack.base + 14) as store:
        assert store.delete(stream_key(generation_id), control_key(generation_id)) == 2
    assert (await ann.resume(generation_id, ids[-1])).events == []
    for seen in (*ids[:-1], *NO_IDS):
        found = await ann.resume(generation_id, seen)
        check_anew(found, answer.text)
        assert found.terminal.id == ids[-1]


async def test_two_ids_are_none(ann: Client) -> None:
    answer = await ann.ask(script(words=3))
    path = f"/v1/generations/{answer.generation_id}/stream"
    headers = [("Last-Event-ID", "1-1"), ("Last-Event-ID", "1-2")]
    response = await ann.http.get(path, headers=headers)
    assert response.status_code == 200
    assert b"event: generation.snapshot" in response.content
    check_bytes(response.content)
