"""A Redis that evicts, or is too old, is refused by name."""

import pytest

from connectors.errors import RedisAway, Unfit
from connectors.redis.calls import Calls
from connectors.redis.policy import check_policy
from connectors.redis.settings import RedisSettings
from tests.support.redis_server import RedisServer, free_port


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-lru"])
async def test_an_evicting_redis_is_refused(calls: Calls, server: RedisServer, policy: str) -> None:
    assert tuple(int(part) for part in (await check_policy(calls)).split(".")) >= (7, 0)
    server.raw(b"CONFIG", b"SET", b"maxmemory-policy", policy.encode())
    try:
        with pytest.raises(Unfit, match=policy):
            await check_policy(calls)
    finally:
        server.raw(b"CONFIG", b"SET", b"maxmemory-policy", b"noeviction")


async def test_an_absent_redis_is_away() -> None:
    calls = Calls(RedisSettings(url=f"redis://127.0.0.1:{free_port()}/0"))
    with pytest.raises(RedisAway):
        await check_policy(calls)
    await calls.close()
