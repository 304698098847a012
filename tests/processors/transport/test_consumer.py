"""The hand-over of records, and what happens when partitions change hands."""

import asyncio
import importlib.util
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest
from faust.types import TP

from processors.transport.consumer import FENCED_INSTANCE_ID, SETTLE_S_MAX, Taken
from processors.transport.tenure import EXIT_REFUSED
from tests.processors.transport.drivers import INBOX, Make, Ours, nothing, turns
from topics.runtime.clock import elapsed_s


@pytest.fixture
def make() -> Make:
    return Ours


def record(offset: int) -> Any:
    return SimpleNamespace(
        topic=INBOX.topic,
        partition=0,
        offset=offset,
        timestamp=1_500,
        timestamp_type=1,
        headers=(),
        key=b"k",
        value=b"v",
        checksum=None,
        serialized_key_size=1,
        serialized_value_size=1,
    )


@pytest.fixture
def handed(bench: Ours) -> list[Taken]:
    """What came to Faust."""
    found: list[Taken] = []

    async def callback(message: Taken) -> None:
        found.append(message)

    bench.consumer.callback = callback
    return found


async def hand_over(bench: Ours, *offsets: int, assignment: int = 1) -> None:
    await bench.consumer._hand_over({INBOX: [record(at) for at in offsets]}, assignment)


async def test_records_are_taken_in_order_and_held_open(bench: Ours, handed: list[Taken]) -> None:
    await hand_over(bench, 3, 5)  # a gap is nothing
    assert [message.offset for message in handed] == [3, 5]
    bench.consumer.acknowledged(handed[1])
    assert bench.committable() == 3
    bench.consumer.acknowledged(handed[0])
    assert bench.committable() == 6


async def test_a_fetch_across_a_change_of_assignment_is_thrown_away(
    bench: Ours, handed: list[Taken]
) -> None:
    await hand_over(bench, 3)
    bench.offsets.revoked()
    number = bench.offsets.assigned({INBOX})
    await hand_over(bench, 4, 5)
    assert [message.offset for message in handed] == [3]
    assert not bench.consumer.holds(handed[0])
    await hand_over(bench, 3, assignment=number)
    assert bench.consumer.holds(handed[1])


async def test_an_inbox_that_begins_again_ends_the_process(
    bench: Ours, handed: list[Taken]
) -> None:
    await hand_over(bench, 800)
    await hand_over(bench, 0)
    assert bench.ended == [EXIT_REFUSED]
    assert [message.offset for message in handed] == [800]


async def test_every_assignment_begins_where_the_group_stands(
    bench: Ours, handed: list[Taken], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a fetch was on its way before: its records count for nothing, its position neither."""
    journal: list[str] = []

    async def begin() -> Mapping[TP, int | None]:
        journal.append("begin")
        return {INBOX: 3}

    async def getmany(active: Any, timeout: float) -> Any:
        journal.append("fetch")
        if journal.count("fetch") == 1:
            bench.offsets.revoked()
            bench.offsets.assigned({INBOX})
            return {INBOX: [record(3)]}
        fetcher.should_stop = True
        return {}

    consumer, fetcher = bench.consumer, SimpleNamespace(should_stop=False)
    monkeypatch.setattr(consumer._thread, "begin", begin)
    monkeypatch.setattr(consumer, "_getmany", getmany)
    await consumer._drain_messages(fetcher)
    assert journal == ["begin", "fetch", "begin", "fetch"]
    assert handed == []
    assert bench.offsets.committed_at(INBOX) == 3


async def test_partitions_are_given_up_once_what_was_taken_is_committed(
    bench: Ours, handed: list[Taken]
) -> None:
    tenure, journal = bench.app.tenure, list[str]()
    tenure.fence.assigned(elapsed_s())
    tenure.gate.open()
    await bench.app.producer.buffer.start()
    await hand_over(bench, 3)

    async def fold() -> None:
        async with tenure.gate:
            await turns()
            journal.append("folded")

    async def drain() -> None:
        journal.append("drained")
        bench.consumer.acknowledged(handed[0])

    async def commit(offsets: Mapping[TP, int]) -> bool:
        journal.append(f"committed {offsets[INBOX]}")
        return True

    tenure.drain, bench.consumer._commit = drain, commit
    folding = asyncio.create_task(fold())
    await asyncio.sleep(0)
    await bench.consumer.on_partitions_revoked({INBOX})
    await folding
    await bench.app.producer.buffer.stop()
    assert journal == ["folded", "drained", "committed 4"]
    assert not tenure.gate.is_open
    assert not tenure.fence.holds(elapsed_s())
    assert bench.offsets.to_commit() == {}
    assert bench.app.conf.broker_rebalance_timeout > SETTLE_S_MAX


async def test_rebalances_need_nothing_that_is_not_installed(
    bench: Ours, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert importlib.util.find_spec("opentracing") is None
    rebalanced: list[set[TP]] = []

    async def on_rebalance(assigned: set[TP], *_: Any) -> None:
        rebalanced.append(assigned)

    app, consumer = bench.app, bench.consumer
    consumer._on_partitions_revoked = app._on_partitions_revoked
    consumer._on_partitions_assigned = app._on_partitions_assigned
    monkeypatch.setattr(app.tables, "on_rebalance", on_rebalance)
    monkeypatch.setattr(app, "_producer_flush", nothing)
    for generation in range(3):
        app.on_rebalance_start()
        await consumer.on_partitions_revoked({INBOX})
        await consumer.on_partitions_assigned({INBOX}, generation)
        app.on_rebalance_end()
    assert rebalanced == [{INBOX}] * 3
    assert bench.ended == []


def hear(bench: Ours, kind: type[Any], code: int, sent_s: float) -> None:
    response = SimpleNamespace(error_code=code)
    bench.consumer._thread._heard(object.__new__(kind), response, sent_s)


async def test_the_group_is_heard_from_its_answers_alone(bench: Ours) -> None:
    fence, now_s = bench.app.tenure.fence, elapsed_s()
    hear(bench, HeartbeatRequest, 0, now_s)
    assert not fence.holds(now_s)
    hear(bench, SyncGroupRequest, 0, now_s)
    assert fence.holds(now_s)
    hear(bench, HeartbeatRequest, 27, now_s + 5)  # it rebalances, and knows us
    assert fence.holds(now_s + 12)
    hear(bench, HeartbeatRequest, FENCED_INSTANCE_ID, now_s + 6)
    assert fence.broken(now_s + 6)
