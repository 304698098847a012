"""Hands items from a client's threads to the loop, one wake-up for many, in order of arrival."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """`put` from any thread; `take` runs on the loop with all that arrived since."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[list[Item]], None]) -> None:
        self._loop = loop
        self._take = take
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()

    def put(self, item: Item) -> None:
        with self._lock:
            self._items.append(item)
            first = len(self._items) == 1  # more waiting means that a drain is on its way
        if first and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        with self._lock:
            batch = list(self._items)
            self._items.clear()
        if batch:
            self._take(batch)
