"""One plain connection to Redis: made from the settings, without hidden retries.

Owns which redis-py connection we use; never sends a command of its own.
"""

import asyncio
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LinkBroken
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as NoAnswer

from connectors.redis.settings import RedisSettings

BROKEN = (LinkBroken, NoAnswer, OSError, asyncio.TimeoutError)
"""What a connection raises when it must be made anew."""


def new_connection(settings: RedisSettings) -> AbstractConnection:
    """Not connected yet. Reads and writes wait for ever: deadlines are the caller's."""
    options: dict[str, Any] = dict(parse_url(settings.url))
    kind: type[AbstractConnection] = options.pop("connection_class", Connection)
    return kind(
        **options,
        protocol=2,
        driver_info=None,
        socket_timeout=None,
        socket_connect_timeout=settings.deadline_s,
        retry=Retry(NoBackoff(), 0),
    )


async def connect(connection: AbstractConnection, deadline_s: float) -> None:
    """Connects within the deadline, handshake included.

    Raises:
        one of BROKEN.
    """
    async with asyncio.timeout(deadline_s):
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BROKEN:
            raise
        except RedisError as error:  # refused in the handshake: a password, a database
            raise LinkBroken(str(error)) from error
