"""The closer as it runs: orders in through the log, streams and rows out, word back to runs."""

import asyncio
import secrets
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import msgspec
import pytest

from connectors.log import LogProducer, LogReader, Record
from connectors.redis.calls import Calls
from connectors.redis.reader import Live, StreamReader
from connectors.redis.settings import RedisSettings
from connectors.redis.writer import AppendCode, StreamWriter
from connectors.store.cql import CqlStore
from connectors.store.rows import ResultStatus, RowPhase
from connectors.store.settings import StoreSettings
from ops.stack.fresh import FreshStack
from schemas.generated.types import Closed, Ended, Open, RunsInbox, StreamControl
from tests.connectors.closer.test_closing import ended, workers
from tests.support.streams import delta, order
from topics import wire
from topics.partition import partition_of
from topics.registry import CONTROL_STREAMS, RUNS_INBOX

pytestmark = pytest.mark.real

Value = TypeVar("Value")
# Below the group's session timeout: a static member that comes back is given its partitions at once.
GOES_ON_S_MAX = 9.0


class Addresses(msgspec.Struct, frozen=True):
    """Where the parts are that a closer joins."""

    bootstrap: str
    redis_url: str
    store: StoreSettings


@pytest.fixture
def addresses(stack: FreshStack) -> Addresses:
    return Addresses(
        f"127.0.0.1:{stack.base + 10}",
        f"redis://127.0.0.1:{stack.base + 14}/0",
        StoreSettings(port=stack.base + 12),
    )


class Outside:
    """What surrounds a closer: runs' side of the log, a worker's and an edge's hands."""

    def __init__(self, addresses: Addresses, store: CqlStore) -> None:
        self.store = store
        self.calls = Calls(RedisSettings(url=addresses.redis_url))
        self.writer = StreamWriter(self.calls)
        self.reader = StreamReader(self.calls)
        self.producer = LogProducer(
            addresses.bootstrap, True, asyncio.get_running_loop(), lambda _: None
        )
        self._addresses = addresses

    async def order(self, generation_id: str, number: int, body: Open | Ended) -> None:
        event = StreamControl(
            event_id=secrets.token_hex(8),
            generation_id=generation_id,
            epoch=1,
            number=number,
            body=body,
        )
        await self.producer.send(CONTROL_STREAMS, generation_id, event)

    async def told(self, runs_key: str, got: list[Closed]) -> LogReader:
        """Keeps what runs is told under a key from now on."""

        def deliver(records: list[Record]) -> None:
            for record in records:
                body = wire.decode(RunsInbox, record.value).body
                if record.key == runs_key and isinstance(body, Closed):
                    got.append(body)

        partition = partition_of(runs_key, RUNS_INBOX.ring.partitions(True))
        loop = asyncio.get_running_loop()
        reader = LogReader.assigned(self._addresses.bootstrap, loop, RUNS_INBOX, partition, deliver)
        await reader.ready()
        return reader

    async def opened(self, generation_id: str) -> Live:
        return await until(lambda: self.reader.live(generation_id), lambda live: live is not None)


async def until(
    ask: Callable[[], Awaitable[Value | None]],
    good: Callable[[Value | None], bool],
    s_max: float = 20.0,
) -> Value:
    async with asyncio.timeout(s_max):
        while True:
            value = await ask()
            if value is not None and good(value):
                return value
            await asyncio.sleep(0.01)


@pytest.fixture
async def outside(addresses: Addresses) -> AsyncIterator[Outside]:
    outside = Outside(addresses, await CqlStore.open(addresses.store))
    yield outside
    await asyncio.to_thread(outside.producer.close, 5)
    await outside.calls.close()
    await outside.store.close()


@pytest.fixture
def gen() -> str:
    return f"gen_{secrets.token_hex(8)}"


async def test_an_answer_is_opened_and_ended_once(outside: Outside, gen: str) -> None:
    runs_key = f"run_{gen}"
    got: list[Closed] = []
    reader = await outside.told(runs_key, got)
    await outside.order(gen, 1, order())
    await outside.opened(gen)
    done = await outside.writer.append(gen, 1, 1, "text.delta", delta(0, "hello"))
    assert done.code is AppendCode.OK
    row = msgspec.structs.replace(workers("hello"), generation_id=gen)
    await outside.store.put_result(row, RowPhase.FINAL)
    end = msgspec.structs.replace(ended(), runs_key=runs_key)
    for number in (2, 3):
        await outside.order(gen, number, end)
    live = await until(lambda: outside.reader.live(gen), lambda live: bool(live and live.ended))
    stored = await outside.store.result(gen)
    assert stored is not None
    assert (stored.status, stored.text) == (ResultStatus.COMPLETED, "hello")
    assert live.ended == (2, 2)
    async with asyncio.timeout(20):
        while len(got) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert got == 2 * [Closed(generation_id=gen, epoch=2, partial=True, code_points=5)]
    entries = await outside.reader.read(gen, None)
    assert [entry.event for entry in entries] == ["text.delta", "completed"]
    await reader.close()


async def test_a_killed_closer_goes_on_with_what_waited(
    outside: Outside, gen: str, stack: FreshStack
) -> None:
    await outside.order(f"{gen}_before", 1, order())
    await outside.opened(f"{gen}_before")
    old_pid = stack.hurt("closer", signal.SIGKILL)
    began_s = time.monotonic()
    await outside.order(gen, 1, order())
    await outside.opened(gen)
    assert time.monotonic() - began_s < GOES_ON_S_MAX
    await asyncio.to_thread(stack.back, "closer", old_pid)
