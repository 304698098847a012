"""The two Redis of the contract, in the same words: a real server, and the one in memory."""

import asyncio
import time
from typing import Any, Protocol

import msgspec

from connectors.redis.calls import Calls
from connectors.redis.connection import Argument, MakeLink, new_connection
from connectors.redis.memory import MemoryRedis
from connectors.redis.settings import RedisSettings
from tests.support.redis_server import RedisServer


class Server(Protocol):
    """What a test does to a server beside what our own clients do."""

    settings: RedisSettings
    quick: RedisSettings
    """The same place, with a push connection that soon notices a silence."""
    make_link: MakeLink

    async def ask(self, *command: Argument) -> Any:
        """The raw answer to one command of somebody else."""

    async def set_full(self, full: bool) -> None:
        """No memory is left, or some is again."""

    async def cut(self) -> None:
        """Breaks every connection."""

    async def freeze(self, seconds: float) -> None:
        """Answers nothing for that long; returns at once."""

    async def restart(self) -> None:
        """A new process without the old one's data."""

    async def close(self) -> None: ...


class RealServer:
    """A redis-server of its own process. `ask` has a connection of its own."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self.settings = RedisSettings(url=server.url, deadline_s=1.0)
        self.quick = msgspec.structs.replace(self.settings, ping_every_s=0.2, silence_s_max=0.6)
        self.make_link: MakeLink = new_connection
        self._calls = Calls(self.settings)
        assert server.raw(b"FLUSHALL") == b"+OK\r\n"
        assert server.raw(b"CONFIG", b"SET", b"maxmemory", b"0") == b"+OK\r\n"
        assert server.raw(b"SCRIPT", b"FLUSH") == b"+OK\r\n"

    async def ask(self, *command: Argument) -> Any:
        return await self._calls.command(*command)

    async def set_full(self, full: bool) -> None:
        await self.ask("CONFIG", "SET", "maxmemory", "1mb" if full else "0")

    async def cut(self) -> None:
        for kind in (b"pubsub", b"normal"):
            await asyncio.to_thread(self._server.raw, b"CLIENT", b"KILL", b"TYPE", kind)

    async def freeze(self, seconds: float) -> None:
        self._server.send_only(b"DEBUG", b"SLEEP", b"%f" % seconds).close()

    async def restart(self) -> None:
        self._server.stop()
        await asyncio.to_thread(self._server.start)

    async def close(self) -> None:
        await self._calls.close()


class InMemory:
    """The server in memory, on the real clock."""

    def __init__(self) -> None:
        self._server = MemoryRedis(lambda: time.time_ns() // 1_000)
        self.settings = RedisSettings(deadline_s=1.0)
        self.quick = msgspec.structs.replace(self.settings, ping_every_s=0.2, silence_s_max=0.6)
        self.make_link: MakeLink = self._server.link
        self._calls = Calls(self.settings, self.make_link)

    async def ask(self, *command: Argument) -> Any:
        return await self._calls.command(*command)

    async def set_full(self, full: bool) -> None:
        self._server.full = full

    async def cut(self) -> None:
        self._server.cut(executed=True)

    async def freeze(self, seconds: float) -> None:
        self._server.freeze()
        asyncio.get_running_loop().call_later(seconds, self._server.thaw)

    async def restart(self) -> None:
        self._server.stop()
        self._server.start()

    async def close(self) -> None:
        await self._calls.close()
