"""Waits at start for an outside system that is not there yet. Owns the loop, opens nothing itself."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import structlog

from connectors.errors import RedisAway, StoreUnavailable

RETRY_EVERY_S: Final = 0.5
Value = TypeVar("Value")
_log = structlog.get_logger()


async def reached(
    part: str, ask: Callable[[], Awaitable[Value]], stop: asyncio.Event
) -> Value | None:
    """The first answer, asked for until it comes; None where the process is told to stop.

    Raises:
        Unfit: whatever `ask` raises beyond being away; a restart would not help.
    """
    while not stop.is_set():
        try:
            return await ask()
        except (RedisAway, StoreUnavailable) as error:
            _log.info("waits", part=part, reason=str(error))
        try:
            async with asyncio.timeout(RETRY_EVERY_S):
                await stop.wait()
        except TimeoutError:
            continue
    return None
