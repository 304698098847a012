"""One push connection: sharded subscriptions, confirmed, kept over every loss.

Owns one connection and the set of wanted channels. Never waits for a reader of a message, never
keeps one: what was published while it was broken is in the log, and `on_gap` says so.
"""

import asyncio
import math
import random
from collections.abc import Callable
from typing import Any, Final

import structlog
from redis.exceptions import RedisError

from connectors.redis.connection import BROKEN, Link, MakeLink, connect, new_connection, packed
from connectors.redis.settings import RedisSettings
from topics.runtime.clock import elapsed_s

Deliver = Callable[[str, bytes], None]
"""(channel, message); runs on the loop for each message and must return at once."""

FIRST_PAUSE_S: Final = 0.05
COMMANDS_PER_WRITE_MAX: Final = 256

_log = structlog.get_logger()


class PushConnection:
    """`on_gap()` is called whenever messages may have been missed and every wanted channel is
    confirmed again: read all open streams from the log then. Used from one event loop."""

    def __init__(
        self,
        settings: RedisSettings,
        deliver: Deliver,
        on_gap: Callable[[], None],
        jitter: Callable[[], float] = random.random,
        now_s: Callable[[], float] = elapsed_s,
        make_link: MakeLink = new_connection,
    ) -> None:
        self._settings = settings
        self._now_s = now_s
        self._make_link = make_link
        self._deliver = deliver
        self._on_gap = on_gap
        self._jitter = jitter
        self._wanted: dict[str, asyncio.Event] = {}
        """Channel -> set once this connection's Redis confirmed it."""
        self._unanswered: dict[str, int] = {}
        """Channel -> subscriptions sent over this connection and not yet answered."""
        self._again: set[str] = set()
        """Channels whose messages may have been missed and which are not confirmed yet."""
        self._changes: dict[str, bool] = {}
        """Channel -> subscribe or unsubscribe, not yet sent."""
        self._changed = asyncio.Event()
        self._gap = False
        self._heard_at_s = 0.0
        self._connected = False
        self._task: asyncio.Task[None] | None = None

    @property
    def connected(self) -> bool:
        """True while news arrive; False from the first sign of a loss until all is subscribed."""
        return self._connected and not self._gap

    @property
    def channels(self) -> int:
        return len(self._wanted)

    def start(self) -> None:
        self._task = asyncio.create_task(self._keep(), name="redis-push")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def subscribe(self, channel: str) -> None:
        """Wants the channel from now on, over any number of losses. Again: no effect."""
        if channel not in self._wanted:
            self._wanted[channel] = asyncio.Event()
            self._change(channel, subscribe=True)

    def unsubscribe(self, channel: str) -> None:
        """Wants it no more. A message on its way may still be delivered."""
        if self._wanted.pop(channel, None) is not None:
            self._again.discard(channel)
            self._change(channel, subscribe=False)

    async def confirmed(self, channel: str, timeout_s: float) -> bool:
        """Whether Redis confirmed the wanted channel within the time. Where it did not, the
        confirmation still comes, and `on_gap` with it."""
        event = self._wanted.get(channel)
        if event is None:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            if not event.is_set() and channel in self._wanted:
                self._again.add(channel)
                self._gap = True
        return event.is_set()

    def _change(self, channel: str, *, subscribe: bool) -> None:
        self._changes[channel] = subscribe
        self._changed.set()

    async def _keep(self) -> None:
        pause_s = 0.0
        while True:
            connection = self._make_link(self._settings)
            since_s = self._now_s()
            try:
                await connect(connection, self._settings.deadline_s)
                await self._live(connection)
            except (*BROKEN, RedisError) as error:
                if self._connected:
                    _log.warning("push_lost", reason=type(error).__name__)
            finally:
                self._connected = False
                self._gap = True
                await connection.disconnect(nowait=True)
            if self._now_s() - since_s > self._settings.silence_s_max:
                pause_s = 0.0  # it had lived: the next attempt is worth making soon
            pause_s = min(max(2 * pause_s, FIRST_PAUSE_S), self._settings.reconnect_s_max)
            await asyncio.sleep(pause_s * (0.5 + self._jitter() / 2))

    async def _live(self, connection: Link) -> None:
        """Until the connection breaks: the first of three tasks to fail ends all of them."""
        self._subscribe_again()
        self._heard_at_s = self._now_s()
        self._connected = True
        tasks = [
            asyncio.create_task(self._read(connection)),
            asyncio.create_task(self._send(connection)),
            asyncio.create_task(self._ping(connection)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _subscribe_again(self) -> None:
        for event in self._wanted.values():
            event.clear()
        self._unanswered.clear()
        self._again = set(self._wanted)
        self._changes = dict.fromkeys(self._wanted, True)
        self._changed.set()

    async def _read(self, connection: Link) -> None:
        while True:
            self._settle_gap()
            answer: Any = await connection.read_response(
                disable_decoding=True, timeout=math.inf, push_request=True
            )
            self._heard_at_s = self._now_s()
            if not isinstance(answer, list) or len(answer) != 3:
                continue  # the answer to a ping
            kind, name, value = answer
            if kind == b"smessage":
                self._deliver(name.decode(), value)
            elif kind == b"ssubscribe":
                self._confirm(name.decode())

    def _confirm(self, channel: str) -> None:
        """The last subscription sent for a channel counts: one before it may be taken back."""
        left = self._unanswered.pop(channel, 1) - 1
        if left > 0:
            self._unanswered[channel] = left
        elif channel in self._wanted and channel not in self._changes:
            self._wanted[channel].set()
            self._again.discard(channel)

    def _settle_gap(self) -> None:
        if self._gap and not self._again:
            self._gap = False
            self._on_gap()

    async def _send(self, connection: Link) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._changes:
                some = [*self._changes.items()][:COMMANDS_PER_WRITE_MAX]
                for channel, subscribe in some:
                    del self._changes[channel]
                    if subscribe:
                        self._unanswered[channel] = self._unanswered.get(channel, 0) + 1
                # One command a channel: channels of one command would have to share a slot.
                commands = [
                    packed(("SSUBSCRIBE" if subscribe else "SUNSUBSCRIBE", channel))
                    for channel, subscribe in some
                ]
                await connection.send_packed_command(commands, check_health=False)

    async def _ping(self, connection: Link) -> None:
        """Breaks a connection that is open and silent: a frozen Redis, a cable pulled."""
        while True:
            await asyncio.sleep(self._settings.ping_every_s)
            if self._now_s() - self._heard_at_s > self._settings.silence_s_max:
                raise TimeoutError("no word from Redis")
            async with asyncio.timeout(self._settings.ping_every_s):
                await connection.send_packed_command([packed(("PING",))], check_health=False)
