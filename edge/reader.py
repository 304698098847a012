"""One client's place in one generation: what it was given, what waits for it, when it is cut.

Owns a bounded queue of prebuilt frames. A client that falls behind is served from the log at its
own pace; one that does not take what it is sent is cut, its place kept by the last id it saw.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from connectors.errors import RedisAway, RedisRefused
from connectors.redis.layout import Entry, EntryId
from edge.metrics import Metrics

if TYPE_CHECKING:
    from edge.feed import Feed

Item = tuple[Entry | None, bytes]
"""An entry and its frame; None where the frame is only a sign of life."""

PAGE_ENTRIES: Final = 64
STUCK_S: Final = 1.0
"""A write that waits this long while more arrives is a client that does not read."""
_WHOLE: Final = frozenset({"snapshot", "retract"})
_TEXT: Final = frozenset({"text.delta", "snapshot"})


class Buffers:
    """Bounds of what waits for clients: for one, and for all together."""

    def __init__(self, bytes_max: int, bytes_total_max: int) -> None:
        self.bytes_max = bytes_max
        self._bytes_total_max = bytes_total_max
        self.bytes_held = 0

    def fits(self, queued: int, more: int) -> bool:
        return queued + more <= self.bytes_max and self.bytes_held + more <= self._bytes_total_max


class Reader:
    """Made by a feed. `live`: fed as news arrive; otherwise it reads the log by itself."""

    __slots__ = (
        "_buffers", "_ended", "_feed", "_metrics", "_now_s", "_queue", "_queued_bytes",
        "_started_s", "_taken_bytes", "_texted", "_waiter", "cursor", "cut", "empty_reads",
        "hole", "hole_at_s", "live", "on_cut", "sent_at_s", "until_s", "writing_since_s",
    )  # fmt: skip

    def __init__(
        self,
        feed: "Feed",
        cursor: EntryId,
        buffers: Buffers,
        metrics: Metrics,
        now_s: Callable[[], float],
        until_s: float,
        started_s: float | None,
    ) -> None:
        self._feed = feed
        self._buffers = buffers
        self._metrics = metrics
        self._now_s = now_s
        self._started_s = started_s
        self._queue: deque[Item] = deque()
        self._queued_bytes = 0
        self._taken_bytes = 0
        """Given out and still being written, as the next call of `next` has not come."""
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._texted = started_s is None
        self.cursor = cursor
        """Id of the last entry that was given to this reader."""
        self.live = False
        self.hole = False
        """Entries before the next ones are lost: only a whole text helps."""
        self.hole_at_s = 0.0
        self.empty_reads = 0
        self.cut: str | None = None
        self.on_cut: Callable[[bool], None] | None = None
        self.writing_since_s = 0.0
        self.sent_at_s = now_s()
        self.until_s = until_s

    @property
    def over(self) -> bool:
        """Nothing comes any more; what waits may still be taken."""
        return self._ended or self.cut is not None

    @property
    def idle(self) -> bool:
        return not self._queue and not self.writing_since_s

    async def next(self) -> list[Item]:
        """What is new, in order, at least one item; an empty list at the end. Asked for again once
        what came last is written."""
        self._written()
        while not self._queue and not self.over:
            if self.live:
                await self._wake_up()
            else:
                await self._catch_up()
        self._taken_bytes = self._queued_bytes
        items, self._queued_bytes = list(self._queue), 0
        self._queue.clear()
        return items

    def offer(self, entry: Entry, frame: bytes) -> None:
        """The next entry for a live reader."""
        if self.over:
            return
        if self.hole and entry.event not in _WHOLE:
            if entry.terminal:
                self._feed.lose()  # the store has the text as well as the end
            return
        self.hole = False
        if self._fits(frame):
            self.put(entry, frame)
        else:
            self._fall_behind()

    def put(self, entry: Entry | None, frame: bytes) -> None:
        """Queues one item, whatever the bounds say."""
        self._queue.append((entry, frame))
        self._queued_bytes += len(frame)
        self._buffers.bytes_held += len(frame)
        if entry is not None:
            if not self._texted and entry.event in _TEXT and self._started_s is not None:
                self._texted = True
                self._metrics.first_text_s.observe(self._now_s() - self._started_s)
            if entry.id > self.cursor:
                self.cursor = entry.id
            self._ended = self._ended or entry.terminal
        self.wake()

    def end(self, reason: str, *, abort: bool = False) -> None:
        """Cuts the reader off without a terminal. `abort` drops what the client did not take."""
        if self.cut is None:
            self.cut = reason
            self._queue.clear()
            self._buffers.bytes_held -= self._queued_bytes
            self._queued_bytes = 0
            self.wake()
            if self.on_cut is not None:
                self.on_cut(abort)

    def close(self) -> None:
        """The client's side is done, however it ended."""
        self.on_cut = None
        self._written()
        self.end("closed")
        self._feed.drop(self)

    def _written(self) -> None:
        self._buffers.bytes_held -= self._taken_bytes
        self._taken_bytes = 0

    def _fits(self, frame: bytes) -> bool:
        """One frame always does, however large."""
        held = self._queued_bytes + self._taken_bytes
        return not held or self._buffers.fits(held, len(frame))

    def _fall_behind(self) -> None:
        since_s = self.writing_since_s
        if since_s and self._now_s() - since_s > STUCK_S:
            self._metrics.cut.labels("bytes").inc()
            self.end("bytes", abort=True)
        else:
            self._feed.demote(self)

    async def _catch_up(self) -> None:
        """One page of the log, then either more of it or the place among the live ones."""
        try:
            entries = await self._feed.read(self.cursor, "late")
        except (RedisAway, RedisRefused):
            self._feed.admit(self, hole=True)
            return
        if self.over:
            return  # the store told the end meanwhile, and nothing follows an end
        for entry in entries:
            frame = self._feed.frame(entry)
            if not self._fits(frame):
                return  # the rest is read again once this is taken
            self.put(entry, frame)
        if not self.over and len(entries) < PAGE_ENTRIES:
            await self._feed.join(self, found=bool(entries))

    async def _wake_up(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
