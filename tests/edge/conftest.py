"""A real Redis for the edge's tests, one a module; a world per test."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.edge.world import World, running
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
async def world(redis: RedisServer) -> AsyncIterator[World]:
    async with running(redis.url) as made:
        yield made


@pytest.fixture
async def hasty(redis: RedisServer) -> AsyncIterator[World]:
    """A world that gives up waiting as early as the outside is promised."""
    async with running(redis.url, decision_ms_max=500, answer_ms_max=300) as made:
        yield made
