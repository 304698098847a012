"""A TCP proxy that misbehaves on demand: cuts, freezes one direction, leaves connections half open, delays,
drops after so many bytes.

Owns its connections and counts what it did to them, so that a fault that met nothing is seen. Knows no
protocol; a `Tap` may look at what passes and decide for one connection. Never acts by itself, and what it
chooses it chooses from the generator it was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from enum import Enum
from typing import Final, Protocol

import msgspec

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 65_536
CONNECT_S_MAX: Final = 5.0


class Way(Enum):
    """A direction: from the client up to the server, or down again."""

    UP = "up"
    DOWN = "down"


class Passing(msgspec.Struct, frozen=True):
    """What a tap lets pass of what came, and whether the connection ends behind it."""

    data: bytes
    cut: bool = False


class Tap(Protocol):
    """Looks at one connection."""

    def passes(self, way: Way, data: bytes) -> Passing:
        """What to forward now; the rest may be kept back until more comes."""

    def passed(self) -> None:
        """What `passes` returned last is on its way."""


class Counts(msgspec.Struct):
    """What the proxy did so far."""

    connections: int = 0
    refused: int = 0
    cut: int = 0
    halved: int = 0
    frozen_bytes: int = 0
    """Bytes that waited at a frozen direction."""
    delayed_chunks: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class _Link:
    """One connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.halved = False
        self.left: int | None = None
        """Bytes that may still pass before it is cut."""

    def cut(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class Proxy:
    """Listens on `port` for the server at `target`. Everything but `counts` belongs to its loop."""

    def __init__(
        self,
        port: int,
        target: int,
        chance: random.Random,
        tap: Callable[[], Tap] | None = None,
    ) -> None:
        self._port = port
        self._target = target
        self._chance = chance
        self._tap = tap
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = {way: asyncio.Event() for way in Way}
        self._delay_s = 0.0
        self._refusing = False
        self._drop_after: int | None = None
        self._server: asyncio.Server | None = None
        self.counts = Counts()

    async def start(self) -> None:
        """
        Raises:
            OSError: the port is taken.
        """
        self.heal()
        self._server = await asyncio.start_server(self._accept, HOST, self._port)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for link in list(self._links):
            link.cut()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def open_links(self) -> int:
        return len(self._links)

    def cut(self, share: float = 1.0) -> int:
        """Resets this share of the connections, at least one where there is any; returns how many."""
        links = sorted(self._links, key=id)
        self._chance.shuffle(links)
        chosen = links[: max(1, round(share * len(links)))] if links else []
        for link in chosen:
            link.cut()
        self.counts.cut += len(chosen)
        return len(chosen)

    def freeze(self, way: Way) -> None:
        """Nothing goes this way until `heal`; connections stay open."""
        self._open[way].clear()

    def delay(self, seconds: float) -> None:
        """Every chunk, both ways, waits so long."""
        self._delay_s = seconds

    def halve(self) -> int:
        """Ends every connection at the server's side alone: clients go on believing in theirs."""
        links = [link for link in self._links if not link.halved]  # new ones are whole
        for link in links:
            link.halved = True
            link.server.transport.abort()
        self.counts.halved += len(links)
        return len(links)

    def drop_after(self, count: int) -> None:
        """Every connection, also a new one, is reset after so many more bytes, until `heal`."""
        self._drop_after = count
        for link in self._links:
            link.left = count

    def refuse(self) -> None:
        """New connections are closed at once, until `heal`."""
        self._refusing = True

    def heal(self) -> None:
        """Behaves again. Connections that were halved are reset, as their peers would find out."""
        for event in self._open.values():
            event.set()
        self._delay_s, self._refusing, self._drop_after = 0.0, False, None
        for link in list(self._links):
            link.left = None
            if link.halved:
                link.cut()

    async def _serve(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        if self._refusing:
            self.counts.refused += 1
            client.transport.abort()
            return
        try:
            async with asyncio.timeout(CONNECT_S_MAX):
                up_reader, up_writer = await asyncio.open_connection(HOST, self._target)
        except OSError:
            client.transport.abort()
            return
        self.counts.connections += 1
        link = _Link(client, up_writer)
        link.left = self._drop_after
        self._links.add(link)
        tap = self._tap() if self._tap else None
        pumps = [
            asyncio.create_task(self._pump(link, Way.UP, reader, up_writer, tap)),
            asyncio.create_task(self._pump(link, Way.DOWN, up_reader, client, tap)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.discard(link)
            for pump in pumps:
                pump.cancel()
            for writer in (link.client, link.server):
                writer.close()
            ends = await asyncio.gather(*pumps, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    async def _pump(
        self,
        link: _Link,
        way: Way,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        tap: Tap | None,
    ) -> None:
        # A peer that resets ends this way as one that closes does.
        with contextlib.suppress(ConnectionError):
            while data := await source.read(CHUNK_BYTES):
                if link.halved and way is Way.UP:
                    continue
                await self._hold_back(way, len(data))
                passing = tap.passes(way, data) if tap else Passing(data)
                if not await self._forward(link, way, sink, passing.data):
                    return
                if tap:
                    tap.passed()
                if passing.cut:
                    self.counts.cut += 1
                    link.cut()
                    return
        if link.halved and way is Way.DOWN:
            await asyncio.Event().wait()  # the client must not learn of it

    async def _hold_back(self, way: Way, size: int) -> None:
        if not self._open[way].is_set():
            self.counts.frozen_bytes += size
            await self._open[way].wait()
        if self._delay_s:
            self.counts.delayed_chunks += 1
            await asyncio.sleep(self._delay_s)

    async def _forward(
        self, link: _Link, way: Way, sink: asyncio.StreamWriter, data: bytes
    ) -> bool:
        """False where the connection ended here."""
        over = link.left is not None and len(data) > link.left
        if link.left is not None:
            data, link.left = data[: link.left], max(0, link.left - len(data))
        if way is Way.UP:
            self.counts.bytes_up += len(data)
        else:
            self.counts.bytes_down += len(data)
        if link.halved:
            return True
        sink.write(data)
        await sink.drain()
        if over:
            self.counts.cut += 1
            link.cut()
        return not over
