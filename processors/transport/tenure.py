"""What one member of the group holds, from an assignment to its revocation.

Shared by the driver, the recovery and whoever acts for the partitions. Owns the gate in front of every
fold and send, and the way the process ends where it may not go on; decides by the pure parts only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final

from processors.transport.fence import Fence
from processors.transport.offsets import Offsets
from processors.transport.strangers import Strangers
from topics.runtime.clock import elapsed_s

EXIT_REFUSED: Final = 2
"""The topics are not those that were folded: a person must look."""
EXIT_RESTART: Final = 70
"""The outcome of something is unknown: the log knows, so start again and read it."""
EXIT_FENCED: Final = 75
"""The partitions may be another's, or nothing moves."""

End = Callable[[str, int], None]
"""Ends the process with a reason and an exit code; never returns to normal work."""


async def _nothing_open() -> None:
    """Nobody folds yet."""


class Gate:
    """Closed while partitions change hands. `async with gate` waits for it to open, and holds off its
    closing until the block is left."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._shut = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._inside = 0

    async def __aenter__(self) -> None:
        while not self._open.is_set():
            await self._open.wait()
        self._inside += 1
        self._empty.clear()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @property
    def is_open(self) -> bool:
        return self._open.is_set()

    def open(self) -> None:
        self._shut.clear()
        self._open.set()

    async def opened(self) -> None:
        await self._open.wait()

    async def closed(self) -> None:
        await self._shut.wait()

    async def close(self) -> None:
        """Returns once nobody is inside."""
        self._open.clear()
        self._shut.set()
        await self._empty.wait()


class Tenure:
    """`drain` returns once all that was taken is acknowledged; whoever folds sets it."""

    def __init__(self, session_s: float, end: End) -> None:
        self.fence = Fence(session_s)
        self.offsets = Offsets()
        self.strangers = Strangers()
        self.gate = Gate()
        self.end = end
        self.topic_id = ""
        """Kafka's id of the inbox since the first recovery."""
        self.drain: Callable[[], Awaitable[None]] = _nothing_open

    def check(self) -> None:
        """Before every send: ends the process where the partitions may be another's."""
        if not self.fence.holds(elapsed_s()):
            self.end("fenced: the group was silent for too long", EXIT_FENCED)

    def look(self) -> None:
        """The same between sends: a process that slept must not wait for work to notice."""
        if self.fence.broken(elapsed_s()):
            self.end("fenced: the group was silent for too long", EXIT_FENCED)
