"""Whether a Redis may be used: new enough, and never evicting. Owns that one check."""

from typing import Any, Final

from connectors.errors import Unfit
from connectors.redis.calls import Calls

VERSION_LEAST: Final = (7, 0)


async def check_policy(calls: Calls) -> str:
    """The version of the server.

    Raises:
        Unfit: older than 7.0, or it evicts keys; the message says what to change.
        RedisAway: no answer within the deadline.
    """
    server = _fields(await calls.command("INFO", "server"))
    version = server.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < VERSION_LEAST:
        raise Unfit(f"Redis {version} is too old: 7.0 or newer is needed")
    policy = _fields(await calls.command("INFO", "memory")).get("maxmemory_policy", "")
    if policy != "noeviction":
        raise Unfit(
            f"Redis evicts keys (maxmemory-policy {policy or 'unknown'}): set it to noeviction"
        )
    return version


def _fields(told: Any) -> dict[str, str]:
    lines = bytes(told).decode("utf-8", "replace").splitlines()
    return {name: value for name, colon, value in (line.partition(":") for line in lines) if colon}
