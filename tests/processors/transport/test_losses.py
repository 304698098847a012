"""The ways in which stock faust-streaming 0.15.3 loses records, L1 to L7, each run on stock and on ours."""

import asyncio
import gc
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import faust.streams
import pytest
from aiokafka.errors import MessageSizeTooLargeError
from faust.exceptions import ProducerSendError

from processors.transport.tenure import EXIT_RESTART
from tests.processors.transport.drivers import (
    INBOX,
    Bench,
    Ours,
    Stock,
    both,
    record_commits,
    turns,
)


def test_the_driver_is_written_against_this_version() -> None:
    assert version("faust-streaming") == "0.15.3"


@both("L1: a flush gives up after 100 ms without a sent record, backlog left")
async def test_l1_an_offset_never_commits_before_what_was_put(bench: Bench) -> None:
    journal = list[str]()
    record_commits(bench, journal)
    buffer, all_sent = bench.app.producer.buffer, asyncio.Event()

    async def slow(put: int) -> None:
        await asyncio.sleep(0.15)  # longer than stock's patience
        journal.append(f"sent {put}")
        if put == 2:
            all_sent.set()

    buffer._send_pending = slow
    await buffer.start()
    for put in range(3):
        buffer.put(put)
    await bench.consumer._commit_offsets({INBOX: 3})
    before_commit = journal[: journal.index("commit")]
    await all_sent.wait()
    await buffer.stop()
    assert before_commit == ["sent 0", "sent 1", "sent 2"]


class FailingClient:
    """aiokafka's producer, whose broker refuses the record."""

    def __init__(self) -> None:
        self.futures: list[asyncio.Future[Any]] = []

    async def send(self, *_: Any, **__: Any) -> "asyncio.Future[Any]":
        future = asyncio.get_running_loop().create_future()
        future.set_exception(MessageSizeTooLargeError())
        self.futures.append(future)
        return future

    async def flush(self) -> None:
        await asyncio.wait(self.futures)


@both("L2: a failed send is logged, and the offset commits")
async def test_l2_a_failed_send_never_commits_an_offset(bench: Bench) -> None:
    journal = list[str]()
    record_commits(bench, journal)
    open_fence(bench)
    producer = bench.app.producer
    producer._producer = FailingClient()
    await producer.buffer.start()
    await producer.send("facts", b"k", b"v", 0, None, None)
    with suppress(ProducerSendError):
        await bench.consumer._commit_offsets({INBOX: 3})
    await producer.buffer.stop()
    assert journal == []
    assert bench.ended == [EXIT_RESTART]


@both("L3: with 37 running and 38 done, 39 is committed")
async def test_l3_a_running_event_is_never_passed(bench: Bench) -> None:
    bench.consumer._committed_offset[INBOX] = 37
    bench.take(37)
    bench.finish(bench.take(38))
    assert bench.committable() in (None, 37)


@both("L3: on a fresh partition any gap is passed")
async def test_l3_the_first_event_is_never_passed(bench: Bench) -> None:
    bench.take(0)
    bench.finish(bench.take(4))
    assert bench.committable() in (None, 0)


@both("L4: the stream's finally acknowledges the event that raised")
async def test_l4_an_event_that_raised_is_not_done(bench: Bench) -> None:
    with suppress(ZeroDivisionError):
        async for _ in stream_of(bench, bench.take(7)).events():
            raise ZeroDivisionError
    await finalized()
    assert bench.committable() is None


@both("L4: the stream's finally acknowledges the event that was cancelled")
async def test_l4_a_cancelled_event_is_not_done(bench: Bench) -> None:
    inside = asyncio.Event()

    async def fold() -> None:
        async for _ in stream_of(bench, bench.take(7)).events():
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(fold())
    await inside.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    del task
    await finalized()
    assert bench.committable() is None


@both("L5: an event skipped for an old generation is acknowledged")
async def test_l5_a_skipped_event_is_not_done(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faust.streams, "_CStreamIterator", None)  # the path without the .so
    stream = stream_of(bench, bench.take(5))
    bench.app.consumer_generation_id += 1

    async def fold() -> None:
        async for _ in stream.noack().events():
            raise AssertionError("the old generation's event was processed")

    task = asyncio.create_task(fold())
    await turns()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert bench.committable() is None


@both("L8: a failed OffsetCommit advances the committed offset all the same")
async def test_l8_a_failed_commit_is_no_commit(bench: Bench) -> None:

    async def refuse(offsets: object) -> bool:
        return False

    bench.consumer._commit = refuse
    await bench.app.producer.buffer.start()
    bench.finish(bench.take(0))
    await bench.consumer._commit_offsets({INBOX: 1})
    await bench.app.producer.buffer.stop()
    assert known_committed(bench) is None


def known_committed(bench: Bench) -> int | None:
    if isinstance(bench, Ours):
        return bench.offsets.committed_at(INBOX)
    found: int | None = bench.consumer._committed_offset[INBOX]
    return found


def open_fence(bench: Bench) -> None:
    if isinstance(bench, Ours):
        from topics.runtime.clock import elapsed_s

        bench.app.tenure.fence.assigned(elapsed_s())
    else:
        assert isinstance(bench, Stock)


def stream_of(bench: Bench, message: Any) -> Any:
    """A stream with one event waiting in it."""
    stream = bench.app.stream(bench.app.channel())
    message.incref()
    stream.channel.queue.put_nowait(bench.app.create_event(b"k", b"v", None, message))
    return stream


async def finalized() -> None:
    """Lets abandoned generators run their finally."""
    await turns()
    gc.collect()
    await turns()
