"""The hub: from one push connection to all readers of this edge.

Owns the feeds and everything that happens by the clock: signs of life, silence, slow readers,
`reader_seen_at`, and asking the store where Redis cannot tell an end. No timer per reader.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

import structlog

from connectors.errors import RedisAway, RedisRefused, StoreUnavailable, Unfit
from connectors.redis.layout import channel, generation_of, parse_message
from connectors.store import Result, Store
from edge.feed import Feed, Log
from edge.metrics import Metrics
from edge.reader import Buffers, Reader
from edge.settings import EdgeSettings
from edge.sse import KEEP_ALIVE
from edge.stored import stored_end

STORE_READS_MAX = 16

_log = structlog.get_logger()


class Push(Protocol):
    """What we use of connectors.redis.push.PushConnection."""

    @property
    def connected(self) -> bool: ...

    def subscribe(self, channel: str) -> None: ...

    def unsubscribe(self, channel: str) -> None: ...

    async def confirmed(self, channel: str, timeout_s: float) -> bool: ...


class Hub:
    """`deliver` and `gap` are given to the push connection; `bind` takes it before the first
    reader. Used from one event loop."""

    def __init__(
        self,
        settings: EdgeSettings,
        log: Log,
        store: Store,
        metrics: Metrics,
        now_s: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._log = log
        self._store = store
        self._metrics = metrics
        self._now_s = now_s
        self._feeds: dict[str, Feed] = {}
        self._buffers = Buffers(
            settings.stream_buffer_bytes_max, settings.stream_buffers_bytes_total_max
        )
        self._work: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._store_reads = asyncio.Semaphore(STORE_READS_MAX)
        self._touched_at_s = 0.0
        self._asked_at_s = 0.0
        self._push: Push
        metrics.buffered_bytes.set_function(lambda: self._buffers.bytes_held)
        metrics.feeds.set_function(lambda: len(self._feeds))
        metrics.push_connected.set_function(lambda: self.connected)

    def bind(self, push: Push) -> None:
        self._push = push

    @property
    def connected(self) -> bool:
        return self._push.connected

    def deliver(self, channel_name: str, message: bytes) -> None:
        """One pushed message."""
        feed = self._feeds.get(generation_of(channel_name))
        if feed is None:
            return
        try:
            entry = parse_message(message)
        except ValueError:
            _log.warning("push_unreadable", generation_id=feed.generation_id)
            return
        feed.push(entry)

    def gap(self) -> None:
        """Messages may have been missed: every open feed looks into the log."""
        for feed in [*self._feeds.values()]:
            feed.refresh("gap")
            for reader in [*feed.readers]:
                if reader.hole:
                    feed.try_again(reader)

    def hold(self, generation_id: str) -> Feed:
        """The feed of a generation, subscribed from now on; `release` it when done."""
        feed = self._feeds.get(generation_id)
        if feed is None:
            feed = Feed(
                generation_id,
                self._log,
                self._buffers,
                self._metrics,
                self._now_s,
                self._forget_if_empty,
            )
            self._feeds[generation_id] = feed
            self._push.subscribe(channel(generation_id))
        feed.holds += 1
        return feed

    def release(self, feed: Feed) -> None:
        feed.holds -= 1
        self._forget_if_empty(feed)

    async def confirmed(self, feed: Feed, timeout_s: float) -> bool:
        """Whether news of this generation arrive from now on."""
        return await self._push.confirmed(channel(feed.generation_id), timeout_s)

    def end_all(self, reason: str) -> None:
        """Cuts every reader, each with its place kept by the last id it saw."""
        for feed in [*self._feeds.values()]:
            for reader in [*feed.readers]:
                if not reader.over:
                    self._metrics.cut.labels(reason).inc()
                    reader.end(reason)

    async def run(self) -> None:
        """The one clock of all readers; runs until cancelled."""
        bounds = self._settings
        tick_s = min(
            1.0,
            bounds.keep_alive_s / 5,
            bounds.silence_s_max / 5,
            bounds.write_s_max / 5,
            bounds.store_ask_s,
            bounds.touch_s,
        )
        while True:
            await asyncio.sleep(tick_s)
            self.tick(tick_s)

    def tick(self, tick_s: float) -> None:
        """What is due now. Everything that waits becomes a task, one of a kind per generation."""
        now_s = self._now_s()
        bounds = self._settings
        if now_s - self._touched_at_s >= bounds.touch_s:
            self._touched_at_s = now_s
            self._start("", "touch", self._touch)
        asking = now_s - self._asked_at_s >= bounds.store_ask_s
        if asking:
            self._asked_at_s = now_s
        away = not self._push.connected
        for feed in [*self._feeds.values()]:
            for reader in [*feed.readers]:
                self._look_after(feed, reader, now_s, tick_s)
            silent = not feed.ended and now_s - feed.news_at_s >= bounds.silence_s_max
            if silent:
                feed.news_at_s = now_s
                self._start(feed.generation_id, "check", feed.check)
            # A silence is asked about in the store as well: a control hash that was made anew after
            # a loss may say that an ended generation runs.
            lost = asking and (feed.lost or (away and not feed.ended))
            if feed.readers and (lost or silent):
                self._start(feed.generation_id, "store", partial(self._ask_store, feed))

    async def close(self) -> None:
        for task in self._work.values():
            task.cancel()
        await asyncio.gather(*self._work.values(), return_exceptions=True)

    def _look_after(self, feed: Feed, reader: Reader, now_s: float, tick_s: float) -> None:
        bounds, since_s = self._settings, reader.writing_since_s
        if reader.cut is None and since_s and now_s - since_s > bounds.write_s_max:
            # Also where the end waits behind what is not taken: it would wait for ever.
            self._metrics.cut.labels("age").inc()
            reader.end("age", abort=True)
        elif reader.over:
            return
        elif now_s > reader.until_s:
            self._metrics.cut.labels("too_long").inc()
            reader.end("too_long")
        elif reader.idle and now_s - reader.sent_at_s >= bounds.keep_alive_s - tick_s:
            reader.put(None, KEEP_ALIVE)
        if reader.hole and now_s - reader.hole_at_s >= bounds.silence_s_max:
            feed.try_again(reader)

    def _start(
        self, generation_id: str, kind: str, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        name = (generation_id, kind)
        if name not in self._work:
            task = asyncio.create_task(work())
            self._work[name] = task
            task.add_done_callback(lambda done: self._finished(name, done))

    def _finished(self, name: tuple[str, str], task: asyncio.Task[None]) -> None:
        self._work.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("hub_fault", kind=name[1], reason=type(error).__name__, exc_info=error)

    async def _touch(self) -> None:
        """Somebody waits for each of these, streamed or not; the worker's policy looks at it."""
        waiting = [feed.generation_id for feed in self._feeds.values() if feed.readers]
        try:
            await self._log.touch(waiting)
        except (RedisAway, RedisRefused):
            return  # said again in a moment; the worker's grace is longer than that

    async def _ask_store(self, feed: Feed) -> None:
        async with self._store_reads:
            try:
                row = await self._store.result(feed.generation_id)
            except (StoreUnavailable, Unfit):
                return  # asked again in a moment
        if row is not None and row.ended:
            self.finish(feed, row)

    def finish(self, feed: Feed, row: Result) -> None:
        """Ends every reader of a feed with the stored text and terminal."""
        for reader in [*feed.readers]:
            if not reader.over:
                self._metrics.store_ends.inc()
                for entry, frame in stored_end(row, feed.framer, reader.cursor):
                    reader.put(entry, frame)

    def _forget_if_empty(self, feed: Feed) -> None:
        known = self._feeds.get(feed.generation_id) is feed
        if known and not feed.readers and feed.holds <= 0:
            del self._feeds[feed.generation_id]
            self._push.unsubscribe(channel(feed.generation_id))
