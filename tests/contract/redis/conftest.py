"""Every test of this folder runs on a real redis-server and on the one in memory."""

from collections.abc import AsyncIterator, Iterator

import pytest

from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.reader import StreamReader
from connectors.redis.writer import StreamWriter
from tests.contract.redis.servers import InMemory, RealServer, Server
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="package")
def process() -> Iterator[RedisServer]:
    with running_redis() as process:
        yield process


@pytest.fixture(params=["real", "memory"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    real = request.param == "real"
    server: Server = RealServer(request.getfixturevalue("process")) if real else InMemory()
    yield server
    await server.close()


@pytest.fixture
async def calls(server: Server) -> AsyncIterator[Calls]:
    calls = Calls(server.settings, server.make_link)
    yield calls
    await calls.close()


@pytest.fixture
def writer(calls: Calls) -> StreamWriter:
    return StreamWriter(calls)


@pytest.fixture
def closer(calls: Calls) -> StreamCloser:
    return StreamCloser(calls)


@pytest.fixture
def reader(calls: Calls) -> StreamReader:
    return StreamReader(calls)
