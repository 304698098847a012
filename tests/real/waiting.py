"""Waiting for a condition of another process, with a deadline and no fixed sleep."""

import asyncio
import time
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], Awaitable[bool]], s_max: float = 20.0) -> None:
    """Returns once the condition holds; fails past the deadline."""
    deadline = time.monotonic() + s_max
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come within its deadline"
        await asyncio.sleep(0.02)


async def until_so(condition: Callable[[], bool], s_max: float = 20.0) -> None:
    """The same for a condition that is seen at once."""

    async def asked() -> bool:
        return condition()

    await until(asked, s_max)
