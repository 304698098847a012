"""Streams read through the push connection survive every loss of it. What each loss does to the
connection itself is in `tests/contract/redis`."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.layout import Entry, channel, generation_of, parse_message
from connectors.redis.push import PushConnection
from connectors.redis.reader import StreamReader
from connectors.redis.settings import RedisSettings
from connectors.redis.writer import AppendCode, StreamWriter
from tests.support.redis_server import RedisServer, running_redis
from tests.support.streams import closing, delta, order


@pytest.fixture
def own() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


async def until(condition: Callable[[], bool], s_max: float = 10.0) -> None:
    async with asyncio.timeout(s_max):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Reading:
    """A hub in small: forwards what is next, reads the log where something may be missing."""

    def __init__(self, url: str, reader: StreamReader) -> None:
        self.seen: dict[str, list[Entry]] = {}
        self._reader = reader
        self._dirty: set[str] = set()
        self._wake = asyncio.Event()
        settings = RedisSettings(url=url, ping_every_s=0.2, silence_s_max=0.6)
        self.push = PushConnection(settings, self._deliver, self._all_dirty)
        self.push.start()
        self._task = asyncio.create_task(self._catch_up())

    def open(self, generation_id: str) -> None:
        self.seen[generation_id] = []
        self.push.subscribe(channel(generation_id))

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.push.close()

    def _deliver(self, name: str, message: bytes) -> None:
        generation_id, entry = generation_of(name), parse_message(message)
        seen = self.seen[generation_id]
        if entry.sequence == (seen[-1].sequence if seen else 0) + 1:
            seen.append(entry)
        elif not seen or entry.id > seen[-1].id:
            self._dirty.add(generation_id)
            self._wake.set()

    def _all_dirty(self) -> None:
        self._dirty.update(self.seen)
        self._wake.set()

    async def _catch_up(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            for generation_id in [*self._dirty]:
                self._dirty.discard(generation_id)
                seen = self.seen[generation_id]
                after = seen[-1].id if seen else None
                for entry in await self._reader.read(generation_id, after):
                    if not seen or entry.id > seen[-1].id:
                        seen.append(entry)


async def answer(writer: StreamWriter, closer: StreamCloser, name: str, entries: int) -> None:
    """One answer of many small appends; each is repeated until Redis has it."""
    await closer.open_(name, 1, 1, order())
    for sequence in range(1, entries + 1):
        data = delta(sequence - 1, "x")
        while True:
            done = await writer.append(name, 1, sequence, "text.delta", data)
            if done.code is AppendCode.OK:
                break
            assert done.code is AppendCode.AWAY
        await asyncio.sleep(0.01)
    await closer.fence(name, 2)
    await closer.end(name, closing((1, entries), entries + 1))


async def hurt(server: RedisServer) -> None:
    """Everything of case R2 but the restart, which would lose the streams themselves."""
    for kind in (b"pubsub", b"normal", b"pubsub"):
        await asyncio.sleep(0.15)
        await asyncio.to_thread(server.raw, b"CLIENT", b"KILL", b"TYPE", kind)
    frozen = await asyncio.to_thread(server.send_only, b"DEBUG", b"SLEEP", b"5")
    await asyncio.to_thread(frozen.recv, 16)
    frozen.close()


async def test_every_open_stream_survives_every_loss_of_the_connection(own: RedisServer) -> None:
    calls = Calls(RedisSettings(url=own.url))
    writer, closer = StreamWriter(calls), StreamCloser(calls)
    reading = Reading(own.url, StreamReader(calls))
    names = [f"gen_{number}" for number in range(10)]
    for name in names:
        reading.open(name)
    await asyncio.gather(hurt(own), *(answer(writer, closer, name, 60) for name in names))
    await until(lambda: all(seen and seen[-1].terminal for seen in reading.seen.values()))
    for seen in reading.seen.values():
        assert [entry.sequence for entry in seen] == [*range(1, 62)]

    own.stop()
    await asyncio.to_thread(own.start)
    await until(lambda: reading.push.connected)
    reading.open("gen_new")
    await answer(writer, closer, "gen_new", 5)
    await until(lambda: [e.sequence for e in reading.seen["gen_new"]] == [*range(1, 7)])
    await reading.close()
    await calls.close()
