"""Ready means that the parts which serve a generation have just answered; what is missing is named."""

import asyncio
from collections.abc import Callable
from typing import Any

from connectors.errors import RedisAway, Unfit
from edge import readiness
from edge.readiness import Readiness
from schemas.generated.types import Query
from tests.edge.client import until
from tests.edge.machines import default_answer, unknown
from tests.edge.world import World
from topics.partition import partition_of
from topics.registry import ACCOUNTS_INBOX, RUNS_INBOX


class Probe:
    """Readiness over a world, with a Redis check and a log reader that a test can break."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.redis: Exception | None = None
        self.log: str | None = None
        self.made = Readiness(world.parts, True, lambda: self.log)

    async def check_redis(self) -> str:
        if self.redis is not None:
            raise self.redis
        return "7.0.15"

    async def settled(self, wanted: Callable[[set[str]], bool]) -> set[str]:
        task = asyncio.create_task(self.made.run(self.check_redis))
        try:
            await until(lambda: wanted(set(self.made.missing())))
        finally:
            task.cancel()
        return set(self.made.missing())


def answering(world: World) -> None:
    def script(topic: Any, key: str, value: Any) -> Any:
        known_nowhere = isinstance(value.body, Query) and value.body.generation_id
        return unknown("gen_0") if known_nowhere else default_answer(value)

    world.machines.script = script


async def test_ready_when_everyone_answered(world: World) -> None:
    answering(world)
    probe = Probe(world)
    assert len(probe.made.missing()) == 10  # redis, store and four partitions of two machines
    assert await probe.settled(lambda missing: not missing) == set()
    asked = {(topic.name, partition_of(key, 4)) for topic, key, _ in world.machines.sent}
    names = (ACCOUNTS_INBOX.name, RUNS_INBOX.name)
    assert asked == {(name, partition) for name in names for partition in range(4)}


async def test_what_is_missing_is_named(world: World, monkeypatch: Any) -> None:
    monkeypatch.setattr(readiness, "ANSWER_MS_MAX", 100)

    def script(topic: Any, key: str, value: Any) -> Any:
        silent = topic is RUNS_INBOX and partition_of(key, 4) == 2
        return None if silent else default_answer(value)

    world.machines.script = script
    probe = Probe(world)
    assert await probe.settled(lambda missing: missing == {"runs/2"}) == {"runs/2"}
    world.store.away = True
    assert await probe.settled(lambda missing: "store" in missing) == {"runs/2", "store"}
    probe.redis = RedisAway("away")
    await probe.settled(lambda missing: "redis" in missing)
    probe.redis = Unfit("Redis evicts keys")
    await probe.settled(lambda missing: probe.made.missing().get("redis") == "Redis evicts keys")
    probe.log = "broker says no"
    assert probe.made.missing()["replies"] == "broker says no"
    probe.made.drain()
    assert probe.made.missing()["edge"] == "draining"


async def test_an_answer_grows_old(world: World) -> None:
    answering(world)
    probe = Probe(world)
    await probe.settled(lambda missing: not missing)
    ages = probe.made._answered_at_s
    for name in ages:
        ages[name] -= 60
    assert len(probe.made.missing()) == 8


async def test_without_push_nothing_is_ready(world: World, redis: Any) -> None:
    answering(world)
    probe = Probe(world)
    await probe.settled(lambda missing: not missing)
    try:
        redis.stop()
        await probe.settled(lambda missing: "push" in missing)
    finally:
        redis.start()
    await probe.settled(lambda missing: not missing)
