"""One generation with readers on this edge: what comes next, and one read of the log for all.

Owns the order. News are pushed; where they are not the next in sequence the log is read, once,
whoever asks. Live readers share one place, `head`; the others read the log by themselves.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from connectors.errors import RedisAway, RedisRefused
from connectors.redis.layout import Entry, EntryId
from connectors.redis.reader import Live
from edge.metrics import Metrics
from edge.reader import PAGE_ENTRIES, Buffers, Reader
from edge.sse import BEFORE_ALL, Framer

EMPTY_READS_MAX = 2
"""The log was told of an entry and does not have it after so many reads: it was lost."""


class Log(Protocol):
    """What we use of connectors.redis.reader.StreamReader."""

    async def read(self, generation_id: str, after: EntryId | None, count: int) -> list[Entry]: ...

    async def live(self, generation_id: str) -> Live | None: ...

    async def touch(self, generation_ids: Sequence[str]) -> None: ...


class Feed:
    """Used from one event loop."""

    def __init__(
        self,
        generation_id: str,
        log: Log,
        buffers: Buffers,
        metrics: Metrics,
        now_s: Callable[[], float],
        empty: "Callable[[Feed], None]",
    ) -> None:
        self.generation_id = generation_id
        self.framer = Framer(generation_id)
        self._log = log
        self._buffers = buffers
        self._metrics = metrics
        self._now_s = now_s
        self._empty = empty
        self._reads: dict[EntryId, asyncio.Task[list[Entry]]] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._live: dict[Reader, None] = {}
        self.readers: dict[Reader, None] = {}
        """In the order they came."""
        self.holds = 0
        """Requests that need the feed and have no reader yet."""
        self.head: EntryId | None = None
        """Place of the live readers; kept only while there are any."""
        self.seen: EntryId = BEFORE_ALL
        """Highest id known to exist."""
        self.news_at_s = now_s()
        self.lost = False
        """The log cannot be trusted to tell the end: the store is asked."""
        self.ended = False

    @property
    def live(self) -> bool:
        return bool(self._live)

    def reader(
        self, cursor: EntryId, until_s: float, started_s: float | None, *, fresh: bool
    ) -> Reader:
        """A new reader after `cursor`. `fresh`: the subscription was there before the stream."""
        made = Reader(self, cursor, self._buffers, self._metrics, self._now_s, until_s, started_s)
        self.readers[made] = None
        self._metrics.streams.inc()
        if fresh and not self._live and self.seen == BEFORE_ALL:
            self.head = BEFORE_ALL
            self.admit(made)
        return made

    def drop(self, reader: Reader) -> None:
        if reader in self.readers:
            self.readers.pop(reader, None)
            self._live.pop(reader, None)
            self._metrics.streams.dec()
            self._empty(self)

    def admit(self, reader: Reader, *, hole: bool = False) -> None:
        """The reader takes the place of the live ones."""
        reader.live, reader.empty_reads = True, 0
        self._live[reader] = None
        if hole:
            self._open_hole(reader)
        if self.head is None:
            self.head = max(reader.cursor, self.seen)

    def demote(self, reader: Reader) -> None:
        """The reader goes on from the log at its own pace."""
        reader.live = False
        self._live.pop(reader, None)

    def push(self, entry: Entry) -> None:
        """One pushed entry, in any order and any number of times."""
        self.news_at_s = self._now_s()
        self.seen = max(self.seen, entry.id)
        if not self._live or self.head is None:
            self.head = None
        elif entry.id <= self.head:
            return
        elif _follows(self.head, entry):
            self._forward(entry)
        else:
            self.refresh("gap")

    def frame(self, entry: Entry) -> bytes:
        return self.framer.entry(entry.epoch, entry.sequence, entry.event, entry.data)

    async def read(self, after: EntryId, why: str) -> list[Entry]:
        """One page after an id; who asks for the same page meanwhile gets the same read.

        Raises:
            RedisAway, RedisRefused: as the log does.
        """
        task = self._reads.get(after)
        if task is None:
            self._metrics.log_reads.labels(why).inc()
            task = asyncio.create_task(self._read(after))
            self._reads[after] = task
            task.add_done_callback(lambda done: self._read_done(after, done))
        return await asyncio.shield(task)

    def refresh(self, why: str) -> asyncio.Task[None]:
        """Brings the live readers to the log's end; one at a time."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._refresh(why))
        return self._refreshing

    async def join(self, reader: Reader, *, found: bool) -> None:
        """The reader is at the log's end: live from here, or it reads once more."""
        if self.head is None or not self._live:
            place = self.seen
            if reader.cursor >= place:
                self.head = reader.cursor
                self.admit(reader)
                return
        else:
            place = self.head
            if reader.cursor == place:
                self.admit(reader)
                return
        reader.empty_reads = 0 if found else reader.empty_reads + 1
        if reader.empty_reads >= EMPTY_READS_MAX:
            self.seen = max(self.seen, reader.cursor)
            self._lose_place()
            self.admit(reader, hole=reader.cursor < self.seen)
        elif reader.cursor > place:
            await self.refresh("late")

    async def check(self) -> None:
        """After a silence: is there more in the log, and does Redis still know the generation?"""
        await self.refresh("silence")
        try:
            live = await self._log.live(self.generation_id)
        except (RedisAway, RedisRefused):
            self.lost = True
            return
        at = self.head or BEFORE_ALL
        self.lost = live is None or (live.ended is not None and live.ended > at)

    def lose(self) -> None:
        """From now on the store is asked for the end, until news come again."""
        self.lost = True

    def try_again(self, reader: Reader) -> None:
        """A reader with a hole tries the log once more from where it is."""
        reader.hole = False
        self.demote(reader)
        reader.wake()

    def _forward(self, entry: Entry) -> None:
        self.head = entry.id
        self.seen = max(self.seen, entry.id)
        self.lost = False
        self.ended = self.ended or entry.terminal
        frame = self.frame(entry)
        for reader in [*self._live]:
            reader.offer(entry, frame)

    async def _read(self, after: EntryId) -> list[Entry]:
        entries = await self._log.read(
            self.generation_id, None if after == BEFORE_ALL else after, PAGE_ENTRIES
        )
        if entries:
            self.news_at_s = self._now_s()
            if self._live and self.head is not None and after <= self.head:
                for entry in entries:
                    if entry.id > self.head:
                        self._forward(entry)
            self.seen = max(self.seen, entries[-1].id)
        return entries

    def _read_done(self, after: EntryId, task: asyncio.Task[list[Entry]]) -> None:
        self._reads.pop(after, None)
        if not task.cancelled():
            task.exception()  # seen here, whoever has gone away meanwhile

    async def _refresh(self, why: str) -> None:
        empty_reads = 0
        while self._live and self.head is not None and not self.ended:
            try:
                entries = await self.read(self.head, why)
            except (RedisAway, RedisRefused):
                self.lose()
                return
            if len(entries) >= PAGE_ENTRIES:
                continue
            if self.head is None or self.head >= self.seen:
                return
            empty_reads = 0 if entries else empty_reads + 1
            if empty_reads >= EMPTY_READS_MAX:
                self._lose_place()
                return

    def _lose_place(self) -> None:
        """Entries up to `seen` are gone: live readers wait for a whole text."""
        for reader in self._live:
            if reader.cursor < self.seen:
                self._open_hole(reader)
        self.head = self.seen

    def _open_hole(self, reader: Reader) -> None:
        """The log lacks what comes next for this reader: a whole text, or the store, must help."""
        reader.hole, reader.hole_at_s = True, self._now_s()
        self.lose()


def _follows(head: EntryId, entry: Entry) -> bool:
    """Gap-free within an epoch, only growing across; a snapshot replaces all before it."""
    next_one = entry.sequence == head[1] + 1 and entry.epoch >= head[0]
    return next_one or entry.event == "snapshot"
