"""One plain connection to Redis: made from the settings, without hidden retries.

Owns which redis-py connection we use; never sends a command of its own.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Protocol, cast

import hiredis
from redis.asyncio.connection import Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LinkBroken
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as NoAnswer

from connectors.redis.settings import RedisSettings

BROKEN = (LinkBroken, NoAnswer, OSError, asyncio.TimeoutError)
"""What a connection raises when it must be made anew."""


class Link(Protocol):
    """What is used of redis-py's connection; a test may put a Redis of its own behind it."""

    @property
    def is_connected(self) -> bool: ...

    async def connect(self) -> None: ...

    async def disconnect(self, nowait: bool = False) -> None: ...

    async def send_packed_command(
        self, command: Iterable[bytes], check_health: bool = True
    ) -> None: ...

    async def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = None,
        *,
        push_request: bool = False,
    ) -> Any:
        """The next answer or message, raw; raises a ResponseError that Redis answered with."""


MakeLink = Callable[[RedisSettings], Link]
Argument = str | bytes | int


def packed(command: tuple[Argument, ...]) -> bytes:
    """One command as it is written to Redis."""
    raw: bytes = hiredis.pack_command(command)  # type: ignore[arg-type]
    return raw


def new_connection(settings: RedisSettings) -> Link:
    """Not connected yet. Reads and writes wait for ever: deadlines are the caller's."""
    options: dict[str, Any] = dict(parse_url(settings.url))
    kind: Any = options.pop("connection_class", Connection)
    made = kind(
        **options,
        protocol=2,
        driver_info=None,
        socket_timeout=None,
        socket_connect_timeout=settings.deadline_s,
        retry=Retry(NoBackoff(), 0),
    )
    return cast("Link", made)


async def connect(connection: Link, deadline_s: float) -> None:
    """Connects within the deadline, handshake included.

    Raises:
        one of BROKEN.
    """
    async with asyncio.timeout(deadline_s):
        try:
            await connection.connect()
        except BROKEN:
            raise
        except RedisError as error:  # refused in the handshake: a password, a database
            raise LinkBroken(str(error)) from error
