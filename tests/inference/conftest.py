"""A Redis for the tests of this folder: one server, emptied before each test that wants it."""

from collections.abc import Iterator

import pytest

from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def redis(redis_server: RedisServer) -> RedisServer:
    redis_server.raw(b"FLUSHALL")
    return redis_server
