"""The order law: whatever is pushed, lost, doubled or late, every reader gets exactly the stream.

A scripted log answers reads when the scenario says so, with what it held when it was asked.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from connectors.redis.layout import Entry, EntryId
from connectors.redis.reader import Live
from edge.feed import Feed
from edge.metrics import Metrics
from edge.reader import Buffers, Reader
from edge.sse import BEFORE_ALL

Step = tuple[Any, ...]


class ScriptedLog:
    """Appended entries, and reads that wait until they are let go."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.waiting: list[tuple[asyncio.Future[list[Entry]], list[Entry]]] = []
        self.open = False
        self.reads_at_once: dict[EntryId | None, int] = {}

    async def read(self, generation_id: str, after: EntryId | None, count: int) -> list[Entry]:
        start = after or BEFORE_ALL
        found = [entry for entry in self.entries if entry.id > start][:count]
        if self.open:
            return found
        assert not self.reads_at_once.get(after), "one read at a time of one place"
        self.reads_at_once[after] = 1
        future: asyncio.Future[list[Entry]] = asyncio.get_running_loop().create_future()
        self.waiting.append((future, found))
        answer = await future
        self.reads_at_once[after] = 0
        return answer

    def let_go(self) -> None:
        if self.waiting:
            future, found = self.waiting.pop(0)
            future.set_result(found)

    async def live(self, generation_id: str) -> Live | None:
        return None

    async def touch(self, generation_ids: Sequence[str]) -> None:
        """Nobody looks."""


class Client:
    """Takes from its reader only when allowed to."""

    def __init__(self, reader: Reader, cursor: EntryId) -> None:
        self.reader = reader
        self.cursor = cursor
        self.got: list[Entry] = []
        self.allowed = asyncio.Semaphore(0)
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await self.allowed.acquire()
            items = await self.reader.next()
            if not items:
                return
            self.got += [entry for entry, _ in items if entry is not None]


class Scenario:
    def __init__(self, buffer_bytes: int) -> None:
        self.log = ScriptedLog()
        self.buffers = Buffers(buffer_bytes, 10 * buffer_bytes)
        self.now_s = 0.0
        self.feed = Feed(
            "gen_X",
            self.log,
            self.buffers,
            Metrics(CollectorRegistry()),
            lambda: self.now_s,
            lambda feed: None,
        )
        self.clients: list[Client] = []
        self.epoch, self.sequence = 1, 0

    def append(self, event: str = "text.delta", *, takeover: bool = False) -> None:
        self.epoch += takeover
        self.sequence += 1
        self.log.entries.append(Entry(self.epoch, self.sequence, event, b'{"delta":"x"}'))

    def join(self, cursor: EntryId, *, fresh: bool) -> None:
        reader = self.feed.reader(cursor, 1e9, None, fresh=fresh)
        self.clients.append(Client(reader, cursor))

    async def play(self, step: Step) -> None:
        match step:
            case ("let_go",):
                self.log.let_go()
            case ("gap",):
                self.feed.refresh("gap")
            case ("take", place) if self.clients:
                self.clients[place % len(self.clients)].allowed.release()
            case ("settle",):
                for _ in range(5):
                    await asyncio.sleep(0)
            case _:
                self._write_or_join(step)

    def _write_or_join(self, step: Step) -> None:
        entries = self.log.entries
        match step:
            case ("append", count):
                for _ in range(count):
                    self.append()
            case ("takeover",):
                self.append(takeover=True)
            case ("snapshot",):
                self.append("snapshot")
            case ("push", place) if entries:
                self.feed.push(entries[place % len(entries)])
            case ("push_next", count):
                for _ in range(count):
                    self.append()
                    self.feed.push(entries[-1])
            case ("late",):
                self.join(BEFORE_ALL, fresh=False)
            case ("resume", place) if entries:
                self.join(entries[place % len(entries)].id, fresh=False)

    async def finish(self) -> None:
        """The rest of the stream is read in peace."""
        self.append("completed")
        self.log.open = True
        for client in self.clients:
            for _ in range(1_000):
                client.allowed.release()
        while self.log.waiting:
            self.log.let_go()
        for _ in range(20):
            await self.feed.refresh("silence")
            for _ in range(20):
                await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await asyncio.gather(*(client.task for client in self.clients))


steps = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 70)),
    st.tuples(st.just("takeover")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("push"), st.integers(0, 200)),
    st.tuples(st.just("push_next"), st.integers(1, 5)),
    st.tuples(st.just("late")),
    st.tuples(st.just("resume"), st.integers(0, 200)),
    st.tuples(st.just("let_go")),
    st.tuples(st.just("gap")),
    st.tuples(st.just("take"), st.integers(0, 5)),
    st.tuples(st.just("settle")),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=40), st.sampled_from([200, 700, 100_000]))
@example(
    [("push_next", 1), ("late",), ("settle",), ("push_next", 1), ("let_go",), ("settle",)], 200
)
@example([("append", 2), ("push", 1), ("settle",), ("push", 0), ("let_go",)], 700)
@example([("push_next", 5), ("push_next", 5), ("take", 0), ("settle",), ("push_next", 5)], 200)
def test_every_reader_gets_the_stream(script: list[Step], buffer_bytes: int) -> None:
    async def run() -> None:
        scenario = Scenario(buffer_bytes)
        scenario.join(BEFORE_ALL, fresh=True)
        for step in script:
            await scenario.play(step)
        await scenario.finish()
        for client in scenario.clients:
            wanted = [entry for entry in scenario.log.entries if entry.id > client.cursor]
            assert_told(client.got, wanted)
            client.reader.close()
        assert scenario.buffers.bytes_held == 0

    asyncio.run(run())


def assert_told(got: list[Entry], wanted: list[Entry]) -> None:
    """Every entry once and in order; only what a snapshot replaces may be missing before it."""
    place = 0
    for entry in got:
        at = wanted.index(entry, place)
        assert at == place or entry.event == "snapshot", "a hole"
        place = at + 1
    assert place == len(wanted), "the end is missing"


def test_a_hole_waits_for_a_whole_text() -> None:
    """Entries were pushed, and then the stream was lost: no reader is given text with a hole."""

    async def run() -> None:
        scenario = Scenario(100_000)
        scenario.log.open = True
        scenario.join(BEFORE_ALL, fresh=True)
        client = scenario.clients[0]
        for _ in range(100):
            client.allowed.release()
        await scenario.play(("push_next", 2))
        await scenario.play(("append", 1))
        scenario.append()
        missed = scenario.log.entries[-1]
        scenario.log.entries.clear()
        scenario.feed.push(missed)  # 1-4 after 1-2, and the log has neither
        for _ in range(50):
            await asyncio.sleep(0)
        scenario.append()
        scenario.feed.push(scenario.log.entries[-1])
        await asyncio.sleep(0)
        assert [entry.sequence for entry in client.got] == [1, 2]
        scenario.append("snapshot")
        scenario.feed.push(scenario.log.entries[-1])
        scenario.append("completed")
        scenario.feed.push(scenario.log.entries[-1])
        async with asyncio.timeout(5):
            await client.task
        assert [entry.event for entry in client.got][2:] == ["snapshot", "completed"]

    asyncio.run(run())


def test_one_read_serves_all_who_ask_for_the_same() -> None:
    async def run() -> None:
        scenario = Scenario(100_000)
        await scenario.play(("append", 3))
        for _ in range(50):
            scenario.join(BEFORE_ALL, fresh=False)
        for client in scenario.clients:
            client.allowed.release()
        await scenario.play(("settle",))
        assert len(scenario.log.waiting) == 1
        await scenario.finish()
        assert all(len(client.got) == 4 for client in scenario.clients)

    asyncio.run(run())


def test_a_stream_that_vanished_after_its_end_is_asked_of_the_store() -> None:
    async def run() -> None:
        scenario = Scenario(100_000)
        scenario.log.open = True
        await scenario.play(("push_next", 2))
        scenario.append("completed")
        scenario.feed.push(scenario.log.entries[-1])
        scenario.log.entries.clear()
        scenario.join(BEFORE_ALL, fresh=False)
        scenario.clients[0].allowed.release()
        await scenario.play(("settle",))
        await scenario.play(("settle",))
        assert scenario.feed.lost
        assert scenario.clients[0].got == []
        scenario.clients[0].task.cancel()

    asyncio.run(run())
