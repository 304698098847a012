"""The log's clients against the real broker: places, times, order, commits, and a topic that is missing."""

import asyncio
import uuid

import msgspec
import pytest

from connectors.log import LogProducer, LogReader, Record
from ops.stack.fresh import FreshStack
from schemas.generated.types import EdgeReply, Limits, WorkerFact
from topics import wire
from topics.errors import TopologyError
from topics.registry import ACCOUNTS_INBOX, EDGE_REPLIES, FACTS_WORKERS
from topics.topic import Ring
from topics.topology import check

pytestmark = pytest.mark.real


def _no(reason: str) -> None:
    raise AssertionError(reason)


@pytest.fixture
def bootstrap(stack: FreshStack) -> str:
    return f"127.0.0.1:{stack.base + 10}"


def _reply(number: int) -> EdgeReply:
    return EdgeReply(event_id=f"e{number}", request_id="log-test", body=Limits(limits=()))


async def test_an_assigned_reader_gets_what_is_appended_after_it_was_ready(bootstrap: str) -> None:
    loop = asyncio.get_running_loop()
    got: list[Record] = []
    all_here = asyncio.Event()

    def deliver(records: list[Record]) -> None:
        got.extend(records)
        if len(got) >= 100:
            all_here.set()

    producer = LogProducer(bootstrap, True, loop, _no)
    await producer.send(EDGE_REPLIES, "log-test", _reply(-1), 15)
    reader = LogReader.assigned(bootstrap, loop, EDGE_REPLIES, 15, deliver)
    await reader.ready()
    places = await asyncio.gather(
        *(producer.send(EDGE_REPLIES, "log-test", _reply(number), 15) for number in range(100))
    )
    await asyncio.wait_for(all_here.wait(), 20)
    assert [wire.decode(EdgeReply, record.value).event_id for record in got] == [
        f"e{number}" for number in range(100)
    ]
    assert [record.offset for record in got] == [place.offset for place in places]
    assert [record.append_ms for record in got] == [place.append_ms for place in places]
    await reader.close()
    producer.close(5)


async def test_a_group_goes_on_from_what_was_committed(bootstrap: str) -> None:
    loop = asyncio.get_running_loop()
    group = f"log-test-{uuid.uuid4()}"
    producer = LogProducer(bootstrap, True, loop, _no)
    key = uuid.uuid4().hex
    for number in range(4):
        fact = WorkerFact(
            event_id=f"{key}-{number}", at=1, incarnation=key, pool="log-test", epochs_lost=0
        )
        await producer.send(FACTS_WORKERS, key, fact)

    async def read(until: int) -> tuple[LogReader, list[Record]]:
        seen: list[Record] = []
        enough = asyncio.Event()

        def deliver(records: list[Record]) -> None:
            seen.extend(record for record in records if record.key == key)
            if len(seen) >= until:
                enough.set()

        reader = LogReader.grouped(
            bootstrap, loop, [FACTS_WORKERS], group, "log-test-0", deliver, lambda _: None
        )
        await asyncio.wait_for(enough.wait(), 30)
        return reader, seen

    reader, seen = await read(4)
    second = seen[1]
    reader.commit({(second.topic, second.partition): second.offset + 1})
    await reader.close()
    reader, again = await read(2)
    assert [record.offset for record in again] == [record.offset for record in seen[2:]]
    await reader.close()
    producer.close(5)


def test_a_missing_topic_and_a_wrong_size_are_named(bootstrap: str) -> None:
    missing = msgspec.structs.replace(ACCOUNTS_INBOX, name="accounts.nowhere")
    resized = msgspec.structs.replace(ACCOUNTS_INBOX, ring=Ring("user", 7, 7))
    with pytest.raises(TopologyError, match=r"nowhere is missing.*has 4 partitions, expected 7"):
        check(bootstrap, [missing, resized], True)
