"""HTTP and proxies: headers and events as they happen, a sign of life in every silence, readers that do
not read. Order and counts are judged; the waits of one edge are short by its settings."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack

import httpx2
import pytest

from connectors.sse.parser import Event, Parser
from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge
from tests.real.client import Client, drain, script
from tests.real.edges import NARROW, PATIENT
from tests.real.frozen import frozen_worker
from tests.real.metrics import metric
from tests.real.slow_readers import SilentReader, SlowReader, connect
from tests.real.test_bad_input import PATH
from tests.real.users import Users
from tests.real.views import frames, one_story
from tests.real.waiting import until_so

pytestmark = pytest.mark.real
KEEP_ALIVE = b": keep-alive"


async def ahead_to(events: AsyncIterator[Event], name: str) -> Event:
    """Reads on to the next event of this name."""
    async for event in events:
        if event.event == f"generation.{name}":
            return event
    raise AssertionError(f"the stream ended before {name}")


# --- H1: compression and late headers


@pytest.mark.parametrize("encoding", ["identity", "gzip, deflate, br, zstd"])
async def test_headers_and_first_events_do_not_wait_for_the_first_word(
    stack: FreshStack, ann: Client, encoding: str
) -> None:
    headers = {"Accept-Encoding": encoding}
    with frozen_worker(stack) as thaw:
        async with ann.streaming(script(words=3), headers=headers) as (answer, events):
            await ahead_to(events, "queued")
            assert answer.names == ["created", "queued"]
            path = f"{PATH}/{answer.generation_id}/stream"
            async with ann.http.stream("GET", path, headers=headers) as again:
                parser, seen = Parser(), list[Event]()
                async for chunk in again.aiter_raw():
                    seen += parser.feed(chunk)
                    if len(seen) >= 2:
                        break
            assert [event.event for event in seen] == ["generation.created", "generation.queued"]
            thaw()
            await drain(events)
    for shown in (answer.headers, again.headers):
        assert shown["cache-control"] == "no-store, no-transform"
        assert shown["x-accel-buffering"] == "no"
        assert "content-encoding" not in shown
        assert "content-length" not in shown
    assert answer.terminal.event == "generation.completed"
    assert answer.text == "word1 word2 word3 "


async def test_each_event_comes_as_it_happens(ann: Client) -> None:
    """A model that falls silent after three words: they are there, though the answer is not over."""
    content = script(words=9, tokens_per_s=4, hang_at=3)
    async with ann.streaming(content) as (answer, events):
        while answer.text != "word1 word2 word3 ":
            await ahead_to(events, "text.delta")
        assert set(answer.names) == {"created", "queued", "text.delta"}, "it is not over"
        assert answer.names.count("text.delta") > 1, "not in one lump"
        await ann.cancel(answer.generation_id)
        await ahead_to(events, "cancelled")


# --- H2: quiet stretches


def check_signs_of_life(raw: bytes, least: int) -> None:
    """Comments between frames, never in one, and never with an id."""
    found = [frame for frame in frames(raw) if frame.startswith(b":")]
    assert set(found) <= {KEEP_ALIVE}
    assert len(found) >= least
    assert raw.count(KEEP_ALIVE) == len(found), "none inside a frame"


@pytest.fixture
async def hasty(hasty_edge: SecondEdge, users: Users) -> AsyncIterator[Client]:
    """A user at the edge that gives a sign of life twice a second, behind a proxy that hangs up on a
    connection as silent as five seconds."""
    async with Client(hasty_edge.url, (await users.new()).key) as client:
        client.http.timeout = httpx2.Timeout(60, read=5)
        yield client


async def test_a_queue_without_a_worker_is_not_silent_and_ends_at_its_deadline(
    stack: FreshStack, hasty: Client
) -> None:
    with frozen_worker(stack):
        answer = await hasty.ask(script(words=2))
    check_signs_of_life(answer.raw, 5)
    assert answer.names == ["created", "queued", "error"]
    assert (answer.data()["code"], answer.data()["action"]) == ("capacity_exhausted", "wait")
    assert answer.data()["partial"] is False
    await one_story(stack, hasty, answer)
    assert (await hasty.ask(script(words=2))).text == "word1 word2 "


async def test_a_slow_prefill_is_not_silent_and_a_sign_of_life_is_no_first_word(
    stack: FreshStack, hasty_edge: SecondEdge, hasty: Client
) -> None:
    name = "milena_edge_first_text_seconds_count"
    before = await metric(hasty_edge.operator_url, name)
    async with hasty.streaming(script(words=2, prefill_ms=3_000)) as (answer, events):
        reading = asyncio.create_task(drain(events))
        await until_so(lambda: answer.raw.count(KEEP_ALIVE) >= 3)
        assert answer.names == ["created", "queued"]
        assert await metric(hasty_edge.operator_url, name) == before
        await reading
    check_signs_of_life(answer.raw, 3)
    assert await metric(hasty_edge.operator_url, name) == before + 1
    await one_story(stack, hasty, answer)


async def test_a_run_that_makes_no_word_is_not_silent_and_ends_at_its_deadline(
    stack: FreshStack, hasty: Client
) -> None:
    answer = await hasty.ask(script(words=9, hang_at=0))
    check_signs_of_life(answer.raw, 5)
    assert answer.names == ["created", "queued", "error"]
    assert answer.data()["code"] == "generation_timeout"
    await one_story(stack, hasty, answer)


async def test_a_worker_that_stands_still_before_its_lease_ends_is_not_silent(
    stack: FreshStack, hasty: Client
) -> None:
    async with hasty.streaming(script(words=60, tokens_per_s=60)) as (answer, events):
        await ahead_to(events, "text.delta")
        reading = asyncio.create_task(drain(events))
        with frozen_worker(stack):
            await until_so(lambda: answer.raw.count(KEEP_ALIVE) >= 3)
        await reading
    assert answer.terminal.event == "generation.completed"
    assert len(answer.text.split()) == 60
    check_signs_of_life(answer.raw, 3)
    await one_story(stack, hasty, answer)


async def test_an_answer_in_one_piece_waits_without_a_sign_and_ends_by_its_deadline(
    hasty: Client,
) -> None:
    """One document has no room for comments: the client's patience is the run's deadline."""
    hasty.http.timeout = httpx2.Timeout(60)
    late = await hasty.once(script(words=9, hang_at=2))
    assert late.status_code == 504
    error = late.json()["error"]
    assert (error["code"], error["details"]["partial"]) == ("generation_timeout", True)


# --- H3: readers that do not read

WORDS = 25_000
LONG = script(words=WORDS, tokens_per_s=10_000)
SILENT, SLOW, NORMAL, SLOTS = 50, 20, 5, 3
HELD_BYTES_MAX = 65_536
"""What one client that is behind may cost: its buffer and one flush."""


@pytest.fixture
def narrow_edge(stack: FreshStack) -> Iterator[SecondEdge]:
    """An edge that keeps little for a reader and waits for it for a second."""
    with stack.second_edge({**PATIENT, **NARROW}) as edge:
        yield edge


async def test_readers_that_do_not_read_are_cut_and_hurt_nobody(
    stack: FreshStack, narrow_edge: SecondEdge, users: Users
) -> None:
    url, operator = narrow_edge.url, narrow_edge.operator_url
    cut_before = await metric(operator, "milena_edge_readers_cut_total")
    async with AsyncExitStack() as left:
        keys = [(await users.new()).key for _ in range(-(-(SILENT + SLOW) // SLOTS))]
        bad: list[SilentReader] = []
        for number in range(SILENT + SLOW):
            key = keys[number // SLOTS]
            made = await connect(url, key, LONG, max_output_tokens=WORDS)
            bad.append(SilentReader(made, key) if number < SILENT else SlowReader(made, key))
            left.callback(bad[-1].close)
        good = [
            await left.enter_async_context(Client(url, (await users.new()).key))
            for _ in range(NORMAL)
        ]
        held: list[float] = []
        watch = asyncio.create_task(_watch(operator, held))
        answers, _ = await asyncio.gather(
            asyncio.gather(*(client.ask(LONG, max_output_tokens=WORDS) for client in good)),
            asyncio.gather(*(reader.cut() for reader in bad)),
        )
        watch.cancel()
        assert max(held) < len(bad) * HELD_BYTES_MAX
    whole = answers[0].text
    assert len(whole.split()) == WORDS
    assert all(answer.text == whole for answer in answers)
    assert all(answer.terminal.event == "generation.completed" for answer in answers)
    cut = await metric(operator, "milena_edge_readers_cut_total")
    assert cut - cut_before == len(bad), "each was counted"
    assert await metric(operator, "milena_edge_buffered_bytes") == 0
    for reader in bad[SILENT:]:
        assert isinstance(reader, SlowReader)
        await _place_is_kept(url, reader, whole)


async def _watch(operator_url: str, held: list[float]) -> None:
    """Notes again and again what the edge keeps for clients that are behind."""
    while True:
        held.append(await metric(operator_url, "milena_edge_buffered_bytes"))
        await asyncio.sleep(0.2)


async def _place_is_kept(url: str, reader: SlowReader, whole: str) -> None:
    """A reader that was cut goes on behind the last id it saw, to the exact text."""
    assert reader.last_id, "it saw something"
    async with Client(url, reader.key) as client:
        rest = await client.resume(reader.generation_id, reader.last_id)
    rest.events = [*reader.events, *rest.events]
    assert rest.text == whole
    assert rest.terminal.event == "generation.completed"
