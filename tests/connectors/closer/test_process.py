"""The closer's process on a real Redis and the store's twin: what a record leads to, in which order,
and what happens while either is away."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from prometheus_client import REGISTRY

from connectors.closer.process import Closer
from connectors.closer.settings import CloserSettings
from connectors.errors import RedisAway
from connectors.log import Appended as Place
from connectors.log import Record
from connectors.redis.calls import Calls
from connectors.redis.reader import StreamReader
from connectors.redis.settings import RedisSettings
from connectors.redis.writer import AppendCode, StreamWriter
from connectors.store.memory import MemoryStore
from connectors.store.rows import Result, ResultStatus, RowPhase
from connectors.store.settings import StoreSettings
from schemas.generated.types import (
    Closed,
    Ended,
    FinishReason,
    Hold,
    ReleaseTo,
    Retracted,
    RunsInbox,
    StopOrder,
    StopReason,
    StreamControl,
    Terminal,
)
from tests.connectors.closer.test_closing import ended, workers
from tests.support.redis_server import RedisServer, running_redis
from tests.support.streams import delta, order
from topics import wire
from topics.errors import LogUnavailable
from topics.registry import RUNS_INBOX
from topics.topic import Topic

GEN = "gen_1"
Body = Ended | StopOrder | ReleaseTo | Retracted


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


class Log:
    """Stands in for the producer: keeps what is sent, refuses where told."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, RunsInbox]] = []
        self.refuse = 0

    def send(self, topic: Topic, key: str, value: RunsInbox) -> "asyncio.Future[Place]":
        future: asyncio.Future[Place] = asyncio.get_running_loop().create_future()
        if self.refuse:
            self.refuse -= 1
            future.set_exception(LogUnavailable("no acknowledgement"))
        else:
            self.sent.append((topic.name, key, value))
            future.set_result(Place(0, len(self.sent), 1))
        return future


class Watching(MemoryStore):
    """While the final row is written: was a terminal visible already, may a worker still append?"""

    reader: StreamReader
    writer: StreamWriter
    terminal_seen_first = False
    late: AppendCode | None = None

    async def put_result(self, row: Result, phase: RowPhase) -> None:
        if row.ended:
            with contextlib.suppress(RedisAway):
                entries = await self.reader.read(row.generation_id, None)
                self.terminal_seen_first |= any(entry.terminal for entry in entries)
                last = entries[-1].sequence if entries else 0
                data = delta(0, "late")
                late = await self.writer.append(row.generation_id, 1, last + 1, "text.delta", data)
                self.late = late.code
        await super().put_result(row, phase)


class House:
    """One closer with its surroundings."""

    def __init__(self, url: str) -> None:
        self.calls = Calls(RedisSettings(url=url, deadline_s=0.5))
        self.writer = StreamWriter(self.calls)
        self.reader = StreamReader(self.calls)
        self.store = Watching(time.monotonic, StoreSettings())
        self.store.reader, self.store.writer = self.reader, self.writer
        self.log = Log()
        settings = CloserSettings(tries_max=4, pause_s_first=0.02, pause_s_max=0.1)
        self.closer = Closer(settings, self.calls, self.store, self.log)  # type: ignore[arg-type]
        self._offset = 0
        self._number = 0
        self._committed: dict[tuple[str, int], int] = {}

    async def tell(self, *bodies: object, generation_id: str = GEN, epoch: int = 1) -> None:
        """Delivers these orders as one batch and waits until all are done."""
        records = []
        for body in bodies:
            self._number += 1
            records.append(
                self.record(
                    StreamControl(
                        event_id=f"event-{self._number}",
                        generation_id=generation_id,
                        epoch=epoch,
                        number=self._number,
                        body=body,  # type: ignore[arg-type]
                    )
                )
            )
        await self.deliver(records)

    def record(self, value: StreamControl | bytes) -> Record:
        self._offset += 1
        key = value.generation_id if isinstance(value, StreamControl) else "?"
        raw = wire.encode(value) if isinstance(value, StreamControl) else value
        return Record("control.streams", 0, self._offset, 1, key, raw)

    async def deliver(self, records: list[Record]) -> None:
        self.closer.deliver(records)
        async with asyncio.timeout(20):
            while self.closer.in_flight:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        assert not self.closer.ended.done()
        self._committed.update(self.closer.committable())
        assert self._committed == {("control.streams", 0): self._offset + 1}

    async def opened(self, *texts: str) -> None:
        """A generation whose worker has shown these deltas."""
        await self.tell(order())
        offset = 0
        for sequence, text in enumerate(texts, 1):
            done = await self.writer.append(GEN, 1, sequence, "text.delta", delta(offset, text))
            assert done.code is AppendCode.OK
            offset += len(text)

    async def events(self) -> list[tuple[str, str]]:
        entries = await self.reader.read(GEN, None)
        return [(f"{entry.epoch}-{entry.sequence}", entry.event) for entry in entries]


@pytest.fixture
async def house(server: RedisServer) -> AsyncIterator[House]:
    house = House(server.url)
    yield house
    await house.calls.close()


def counted(kind: str, outcome: str) -> float:
    labels = {"kind": kind, "outcome": outcome}
    return REGISTRY.get_sample_value("milena_closer_orders_total", labels) or 0.0


async def test_a_completed_answer_ends_row_first(house: House) -> None:
    await house.opened("hello ", "world")
    await house.store.put_result(workers("hello world"), RowPhase.FINAL)
    await house.tell(ended())
    row = await house.store.result(GEN)
    assert row is not None
    assert (row.status, row.text) == (ResultStatus.COMPLETED, "hello world")
    assert row.terminal_id == "2-3"
    assert await house.events() == [
        ("1-1", "text.delta"),
        ("1-2", "text.delta"),
        ("2-3", "completed"),
    ]
    assert not house.store.terminal_seen_first
    assert house.store.late is AppendCode.FENCED
    (topic, key, event) = house.log.sent[0]
    assert (topic, key) == (RUNS_INBOX.name, "run_1")
    assert event.body == Closed(generation_id=GEN, epoch=2, partial=True, code_points=11)


async def test_the_same_end_any_number_of_times_is_one_end(house: House) -> None:
    await house.opened("hello")
    await house.store.put_result(workers("hello"), RowPhase.FINAL)
    await house.tell(ended(), ended())
    before = await house.events(), await house.store.result(GEN)
    await house.tell(ended())
    assert (await house.events(), await house.store.result(GEN)) == before
    assert [event.body for _, _, event in house.log.sent] == 3 * [house.log.sent[0][2].body]
    assert len({event.event_id for _, _, event in house.log.sent}) == 3


async def test_a_redelivered_record_tells_runs_the_same_event(house: House) -> None:
    await house.opened("hello")
    record = house.record(
        StreamControl(event_id="e", generation_id=GEN, epoch=1, number=9, body=ended())
    )
    await house.deliver([record])
    await house.deliver([record])
    first, second = house.log.sent
    assert first == second


async def test_stop_and_release_reach_the_worker_and_the_edge(house: House) -> None:
    await house.opened("hello")
    await house.tell(ReleaseTo(released_to=5), StopOrder(reason=StopReason.USER))
    answer = await house.writer.append(GEN, 1, 2, "text.delta", delta(5, "!"))
    assert (answer.code, answer.stop) == (AppendCode.STOP, StopReason.USER)
    live = await house.reader.live(GEN)
    assert live is not None
    assert live.stop is StopReason.USER


async def test_a_worker_that_goes_on_is_fenced_before_the_text_is_taken(house: House) -> None:
    await house.opened("hel")
    await house.tell(
        ended(terminal=Terminal.FAILED, finish_reason=FinishReason.BACKEND_DEAD, keep_row=False)
    )
    assert house.store.late is AppendCode.FENCED
    row = await house.store.result(GEN)
    assert row is not None
    assert (row.text, row.status, row.partial) == ("hel", ResultStatus.FAILED, True)


async def test_ended_in_the_queue_nothing_was_shown(house: House) -> None:
    await house.tell(
        order(),
        ended(
            terminal=Terminal.CANCELLED,
            finish_reason=FinishReason.UNKNOWN,
            text_epoch=0,
            keep_row=False,
            hold=Hold.RELEASED,
        ),
    )
    assert await house.events() == [("2-1", "cancelled")]
    row = await house.store.result(GEN)
    assert row is not None
    assert (row.text, row.partial, row.hold) == ("", False, Hold.RELEASED)


async def test_a_flush_between_tries_keeps_the_text_and_the_terminal_s_name(
    house: House, server: RedisServer
) -> None:
    await house.opened("hello")
    await house.tell(ended(keep_row=False, terminal=Terminal.STOPPED))
    before = await house.store.result(GEN)
    server.raw(b"FLUSHALL")
    await house.tell(ended(keep_row=False, terminal=Terminal.STOPPED))
    assert await house.store.result(GEN) == before
    assert await house.events() == [("2-1", "snapshot"), ("2-2", "stopped")]


async def test_redis_away_keeps_the_row_and_ends_when_it_is_back(
    house: House, server: RedisServer
) -> None:
    await house.opened("hello")
    await house.store.put_result(workers("hello"), RowPhase.FINAL)
    server.stop()
    dropped = counted("Ended", "dropped")
    await house.tell(ended())
    assert counted("Ended", "dropped") == dropped + 1
    row = await house.store.result(GEN)
    assert row is not None
    assert (row.status, row.text) == (ResultStatus.COMPLETED, "hello")
    assert house.log.sent == []
    await asyncio.to_thread(server.start)
    await house.tell(ended())
    assert await house.store.result(GEN) == row
    assert await house.events() == [("2-2000000", "snapshot"), ("2-2000001", "completed")]
    assert len(house.log.sent) == 1


async def test_redis_away_never_costs_text_that_was_only_shown(
    house: House, server: RedisServer
) -> None:
    await house.opened("hello")
    frozen = server.send_only(b"DEBUG", b"SLEEP", b"1")
    telling = asyncio.create_task(house.tell(ended(terminal=Terminal.STOPPED, keep_row=False)))
    await telling
    frozen.close()
    await house.tell(ended(terminal=Terminal.STOPPED, keep_row=False))
    row = await house.store.result(GEN)
    assert row is not None
    assert row.text == "hello"
    assert (await house.events())[-1] == ("2-2", "stopped")


async def test_the_store_away_holds_the_terminal_back(house: House) -> None:
    await house.opened("hello")
    await house.store.put_result(workers("hello"), RowPhase.FINAL)
    house.store.away = True
    await house.tell(ended())
    assert await house.events() == [("1-1", "text.delta")]
    assert house.log.sent == []
    house.store.away = False
    await house.tell(ended())
    assert await house.events() == [("1-1", "text.delta"), ("2-2", "completed")]


async def test_a_log_that_does_not_acknowledge_is_asked_again(house: House) -> None:
    await house.opened("hello")
    house.log.refuse = 2
    await house.tell(ended())
    assert len(house.log.sent) == 1
    assert [event for _, event in await house.events()] == ["text.delta", "completed"]


async def test_one_generation_that_waits_holds_up_no_other(
    house: House, server: RedisServer
) -> None:
    house.store.away = True
    waiting = house.record(
        StreamControl(event_id="e", generation_id="gen_slow", epoch=1, number=9, body=ended())
    )
    opening = house.record(
        StreamControl(event_id="f", generation_id=GEN, epoch=1, number=1, body=order())
    )
    house.closer.deliver([waiting, opening])
    async with asyncio.timeout(1):
        while await house.reader.live(GEN) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert house.closer.in_flight == 1
    assert house.closer.committable() == {("control.streams", 0): 1}
    house.store.away = False
    await house.deliver([])
    assert len(house.log.sent) == 1


async def test_what_cannot_be_read_or_is_not_built_is_counted_and_passed(house: House) -> None:
    invalid = counted("unknown", "invalid")
    unsupported = counted("Retracted", "not_supported")
    await house.deliver([house.record(b"rubbish")])
    await house.tell(Retracted(category="x", closing_epoch=3))
    assert counted("unknown", "invalid") == invalid + 1
    assert counted("Retracted", "not_supported") == unsupported + 1
