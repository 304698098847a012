"""The real edge as a process of the simulated world: its app, its hub, its push connection.

Owns the wiring, and the table of doors through which clients come in. Decides nothing.
"""

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any, Final

import msgspec
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from connectors.redis.push import PushConnection
from connectors.redis.reader import StreamReader
from connectors.store import Key
from connectors.store.keys import KEY_RANDOM_BYTES, ULID_RANDOM_BYTES, hash_key, mint, mint_id
from connectors.store.memory import MemoryStore
from edge.app import build
from edge.metrics import Metrics
from edge.parts import Mint
from edge.settings import EdgeSettings
from edge.wiring import make_parts
from schemas.generated.types import Tier
from tests.simulation.broker import Broker
from tests.simulation.exchange import Broken, Exchange, Headers, scope_of
from tests.simulation.groups import Group
from tests.simulation.loop import PROCESS, Process, SimulationLoop
from tests.simulation.redis import SETTINGS as REDIS
from tests.simulation.redis import SimulatedRedis
from tests.simulation.words import Words
from topics.registry import EDGE_REPLIES

SECRET: Final = b"s" * 32
SETTINGS: Final = EdgeSettings(run_ms_max=20_000, plan_version="simulated")
WAY_S: Final = 0.002
DRAIN_S: Final = 0.5


class User(msgspec.Struct, frozen=True):
    """Somebody with a key."""

    name: str
    tier: Tier
    key: str

    @classmethod
    def named(cls, name: str, tier: Tier) -> "User":
        raw = name.encode().ljust(KEY_RANDOM_BYTES, b".")
        return cls(name, tier, mint(raw[:KEY_RANDOM_BYTES]))


async def register(store: MemoryStore, user: User) -> None:
    """What `milena keys` does."""
    row = Key(
        key_hash=hash_key(SECRET, user.key),
        key_id=f"key_{user.name}",
        user_id=user.name,
        tier=user.tier,
        name="simulated",
        created_at_ms=1,
    )
    await store.put_key(row)


class Doors:
    """Where edges can be reached: name -> the process that listens there now."""

    def __init__(self, loop: SimulationLoop, rng: Random) -> None:
        self._loop = loop
        self._rng = rng
        self._open: dict[str, tuple[Process, ASGIApp]] = {}

    def open(self, name: str, process: Process, app: ASGIApp) -> None:
        self._open[name] = (process, app)

    def names(self) -> list[str]:
        return sorted(self._open)

    def request(
        self, name: str, method: str, path: str, headers: Headers, body: bytes = b""
    ) -> Exchange:
        """
        Raises:
            Broken: nobody listens.
        """
        process, app = self._open[name]
        if not process.alive:
            raise Broken("connection refused")
        scope = scope_of(method, path, {**headers, "content-length": str(len(body))})
        return Exchange(self._loop, process, app, scope, body, self._way_s)

    def _way_s(self) -> float:
        return WAY_S * self._rng.random()


class RealEdge:
    """One life of one edge process, hearing its answers on one partition of `edge.replies`."""

    def __init__(
        self,
        broker: Broker,
        rng: Random,
        groups: Mapping[str, Group],
        redis: SimulatedRedis,
        store: MemoryStore,
        doors: Doors,
        name: str,
        partition: int,
        life: int,
    ) -> None:
        self._doors = doors
        self._name = name
        loop, words = broker.loop, Words(broker, groups, life)
        self._loop = loop
        self._process = PROCESS.get(loop.world)
        mint = Mint(
            id=lambda prefix: mint_id(prefix, broker.now_ms(), rng.randbytes(ULID_RANDOM_BYTES)),
            event_id=lambda: f"{rng.getrandbits(128):032x}",
            now_s=loop.time,
            wall_ms=broker.now_ms,
        )
        self.parts = make_parts(
            settings=SETTINGS,
            secret=SECRET,
            reply_partition=partition,
            mint=mint,
            metrics=Metrics(CollectorRegistry()),
            producer=words,
            log=StreamReader(redis.calls()),
            store=store,
            scripted=True,
        )
        hub = self.parts.hub
        self._push = PushConnection(
            REDIS, hub.deliver, hub.gap, rng.random, loop.time, make_link=redis.link
        )
        hub.bind(self._push)
        self._replies = words.assigned(EDGE_REPLIES, partition, self.parts.replies.deliver)

    async def main(self, process: Process) -> None:
        """Listens once it hears its answers; serves for ever."""
        self._push.start()
        await self._replies.ready()
        self._doors.open(self._name, process, build(self.parts))
        await self.parts.hub.run()

    def stop(self) -> None:
        """SIGTERM, in short: readers are cut with their places kept, then the process is gone."""
        self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        self.parts.hub.end_all("drain")
        await asyncio.sleep(DRAIN_S)
        self._loop.kill(self._process)


def bearer(user: User, **more: Any) -> Headers:
    return {"authorization": f"Bearer {user.key}", **more}
