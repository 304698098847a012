"""One redis-server for a module's tests, emptied before each."""

from collections.abc import AsyncIterator, Iterator

import pytest

from connectors.redis.calls import Calls
from connectors.redis.settings import RedisSettings
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def module_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def server(module_server: RedisServer) -> RedisServer:
    assert module_server.raw(b"FLUSHALL") == b"+OK\r\n"
    assert module_server.raw(b"CONFIG", b"SET", b"maxmemory", b"0") == b"+OK\r\n"
    assert module_server.raw(b"SCRIPT", b"FLUSH") == b"+OK\r\n"
    return module_server


@pytest.fixture
async def calls(server: RedisServer) -> AsyncIterator[Calls]:
    calls = Calls(RedisSettings(url=server.url))
    yield calls
    await calls.close()
