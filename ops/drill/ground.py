"""What a drill is run on: a whole stack, a second edge beside it, the store, and proxies where asked for.

Owns the start and the end of what it adds to the stack. Does no harm itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2

from connectors.store.cql import CqlStore
from connectors.store.keys import read_secret
from connectors.store.settings import StoreSettings
from ops.cli.keys_book import new_key, new_row
from ops.drill.client import Person, new_http
from ops.drill.kafka_tap import Traps
from ops.drill.lag import MACHINES, Lags
from ops.drill.proxy import Proxy
from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge
from ops.stack.settings import read_settings
from schemas.generated.types import Tier
from topics.runtime.clock import wall_ms

OURS: Final = ("accounts", "runs", "workers", "metering", "closer", "worker-scripted", "edge")
PARTS: Final = ("kafka", "cassandra", "redis", "topics", "store", "keys", *OURS)
SETTINGS: Final[Mapping[str, str]] = {
    # No busy machine may turn a cell red: what is judged here is loss, not speed.
    "MILENA_EDGE_PAYLOAD_MS_MAX": "3000",
    "MILENA_EDGE_DECISION_MS_MAX": "4000",
    "MILENA_EDGE_ANSWER_MS_MAX": "4000",
    "MILENA_ACCOUNTS_MESSAGES_MAX_FREE": "12",
    "MILENA_STACK_PARTS": ",".join(PARTS),
}
CALLS_AT_ONCE: Final = 200
Value = TypeVar("Value")


class Proxies:
    """One proxy before each of Kafka, Redis and the store, on a loop of their own: what the load does must
    not slow them."""

    def __init__(self, data: Path, base: int, seed: int) -> None:
        env = {"MILENA_DATA": str(data), "MILENA_PORT_BASE": str(base)}
        settings = read_settings(env)
        ports = settings.proxied_ports
        chance = random.Random(seed)  # noqa: S311  a seeded choice, no secret
        self.traps = Traps()
        self.kafka = Proxy(ports.kafka, ports.kafka_behind, chance, self.traps.tap)
        self.redis = Proxy(ports.redis, settings.ports.redis, chance)
        self.store = Proxy(ports.cassandra, settings.ports.cassandra, chance)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    @property
    def all(self) -> tuple[Proxy, Proxy, Proxy]:
        return (self.kafka, self.redis, self.store)

    @contextlib.contextmanager
    def running(self) -> Iterator[Proxies]:
        self._thread.start()
        try:
            for proxy in self.all:
                self._await(proxy.start())
            yield self
        finally:
            for proxy in self.all:
                self._await(proxy.stop())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5.0)
            self._loop.close()

    async def do(self, act: Callable[[], Value]) -> Value:
        """Runs it on the proxies' loop, where everything of theirs belongs."""

        async def called() -> Value:
            return act()

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(called(), self._loop))

    async def heal(self) -> None:
        def act() -> None:
            self.traps.clear()
            for proxy in self.all:
                proxy.heal()

        await self.do(act)

    def _await(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)


class Ground:
    """Made by `on`."""

    def __init__(
        self,
        stack: FreshStack,
        second: SecondEdge,
        store: CqlStore,
        proxies: Proxies | None,
        http: httpx2.AsyncClient,
    ) -> None:
        self.stack = stack
        self.second = second
        self.store = store
        self.proxies = proxies
        self.http = http
        self.lags = Lags(self.bootstrap)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.stack.base + 10}"

    @property
    def edges(self) -> tuple[str, str]:
        return (self.stack.url, self.second.url)

    async def people(self, count: int, tier: Tier) -> list[Person]:
        """Users nobody has seen before."""
        secret = read_secret(self.stack.data / "secret")
        made = []
        for _ in range(count):
            key = new_key(os.urandom)
            row = new_row(key, secret, tier, "drill", wall_ms(), os.urandom)
            await self.store.put_key(row)
            made.append(Person(row.user_id, key))
        return made

    async def serving(self, s_max: float = 90.0) -> None:
        """Returns once both edges say that a generation can be served."""
        await asyncio.to_thread(self.stack.serving, s_max)
        deadline = time.monotonic() + s_max
        await self.until(lambda: asyncio.to_thread(lambda: self.second.ready), deadline)

    async def caught_up(self, s_max: float) -> dict[str, int]:
        """Waits until every machine was seen without lag; returns what is left of those that were not."""
        left = dict.fromkeys(MACHINES, -1)
        deadline = time.monotonic() + s_max
        while left and time.monotonic() < deadline:
            now = await asyncio.to_thread(self.lags.now)
            left = {name: now.get(name, -1) for name in left if now.get(name, -1) != 0}
            await asyncio.sleep(0.3)
        return left

    @staticmethod
    async def until(condition: Callable[[], Awaitable[bool]], deadline_s: float) -> None:
        """
        Raises:
            TimeoutError: not before the deadline (monotonic).
        """
        while not await condition():
            if time.monotonic() > deadline_s:
                raise TimeoutError
            await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def on(
    stack: FreshStack, second: SecondEdge, proxies: Proxies | None
) -> AsyncIterator[Ground]:
    """The ground over a stack that serves."""
    store = await CqlStore.open(StoreSettings(port=stack.base + 12))
    async with new_http(CALLS_AT_ONCE) as http:
        ground = Ground(stack, second, store, proxies, http)
        try:
            yield ground
        finally:
            ground.lags.close()
            await store.close()


@contextlib.asynccontextmanager
async def fresh(
    data: Path, seed: int, *, proxied: bool, settings: Mapping[str, str] = {}
) -> AsyncIterator[Ground]:
    """A stack of its own, stopped at the end."""
    more = {"MILENA_STACK_PROXIED": ",".join(OURS)} if proxied else {}
    stack = FreshStack(data, {**SETTINGS, **more, **settings})
    with contextlib.ExitStack() as ends:
        proxies = None
        if proxied:
            proxies = ends.enter_context(Proxies(data, stack.base, seed).running())
        ends.callback(stack.stop)
        await asyncio.to_thread(stack.start)
        second = ends.enter_context(stack.second_edge())
        async with on(stack, second, proxies) as ground:
            yield ground
