"""The producer's account, and the last look at the fence before a socket."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.produce import ProduceRequest
from faust.transport.drivers import aiokafka as stock

from processors.transport.producer import APPEND_S_MAX, Producer
from processors.transport.strangers import Span
from processors.transport.tenure import EXIT_FENCED
from tests.processors.transport.drivers import CHANGELOG, Make, Ours, turns
from topics.runtime.clock import elapsed_s

Report = SimpleNamespace


@pytest.fixture
def make() -> Make:
    return Ours


class Client:
    """aiokafka's producer; the test says when the broker has a record."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[Any]] = []
        self.headers: list[Any] = []
        self.written: list[Any] = []
        self.client = SimpleNamespace(send=self._write, ready=self._ready)

    async def start(self) -> None:
        """Nothing to connect to."""

    async def stop(self) -> None:
        """Nothing to leave."""

    async def send(self, *_: Any, **given: Any) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        self.futures.append(future)
        self.headers.append(given["headers"])
        return future

    async def _ready(self, node_id: int) -> bool:
        return True

    async def _write(self, node_id: int, request: Any) -> None:
        self.written.append(request)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr(stock.Producer, "_new_producer", lambda _: made)
    return made


@pytest.fixture
async def producer(bench: Ours, client: Client) -> Producer:
    bench.app.tenure.fence.assigned(elapsed_s())
    made: Producer = bench.app.producer
    await made.on_start()
    return made


async def put(producer: Producer, topic: str = CHANGELOG.topic) -> None:
    await producer.send(topic, b"k", b"v", 0, None, None)


async def test_a_flush_waits_for_all_that_was_sent_before(
    producer: Producer, client: Client
) -> None:
    await put(producer)
    await put(producer)
    flush = asyncio.create_task(producer.flush())
    client.futures[0].set_result(Report(topic="t", partition=0, offset=0))
    await turns()
    assert not flush.done()
    await put(producer)  # after the flush began: not waited for
    client.futures[1].set_result(Report(topic="t", partition=0, offset=1))
    await flush


async def test_the_oldest_send_is_known(producer: Producer, client: Client) -> None:
    assert producer.oldest_s(elapsed_s()) == 0
    await put(producer)
    assert producer.oldest_s(elapsed_s() + APPEND_S_MAX + 1) > APPEND_S_MAX
    client.futures[0].set_result(Report(topic="t", partition=0, offset=0))
    await turns()
    assert producer.oldest_s(elapsed_s() + 100) == 0


async def test_reports_of_the_changelog_show_strangers(
    bench: Ours, producer: Producer, client: Client
) -> None:
    strangers = bench.app.tenure.strangers
    strangers.begin(0, 7)
    for offset in (7, 9):
        await put(producer)
        client.futures[-1].set_result(Report(topic=CHANGELOG.topic, partition=0, offset=offset))
        await turns()
    assert strangers.found() == [Span(0, 8, 9)]


async def test_nothing_is_queued_once_the_group_was_silent(bench: Ours, producer: Producer) -> None:
    bench.app.tenure.fence.assigned(elapsed_s() - 8.1)
    await put(producer)
    assert bench.ended == [EXIT_FENCED]


async def test_what_was_queued_before_a_sleep_is_not_written_after_it(
    bench: Ours, producer: Producer, client: Client
) -> None:
    class Gone(Exception):
        """The process would be gone."""

    def end(reason: str, code: int) -> None:
        raise Gone(code)

    batch = object.__new__(ProduceRequest)
    await client.client.send(0, batch)
    assert client.written == [batch]
    bench.app.tenure.fence.assigned(elapsed_s() - 8.1)
    bench.app.tenure.end = end
    with pytest.raises(Gone, match=str(EXIT_FENCED)):
        await client.client.send(0, batch)
    assert client.written == [batch]
    await client.client.send(0, "metadata")  # what changes nothing may go
    assert client.written == [batch, "metadata"]


async def test_it_is_idempotent_and_bounded(producer: Producer) -> None:
    settings = {**producer._settings_default(), **producer._settings_extra()}
    assert settings["enable_idempotence"] is True
    assert settings["acks"] == "all"
    assert settings["request_timeout_ms"] == 30_000


async def test_headers_reach_the_client_as_it_takes_them(
    producer: Producer, client: Client
) -> None:
    for given in ((), (("a", b"b"),), {"a": b"b"}, None):
        await producer.send("facts", b"k", b"v", 0, None, given)
    assert client.headers == [[], [("a", b"b")], [("a", b"b")], []]
