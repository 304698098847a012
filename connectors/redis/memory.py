"""A Redis in memory for tests: the words of the wire, with every fault a test may want.

`Calls` and `PushConnection` run over it unchanged: it stands where redis-py's connection stands. Owns
connections, scripts' digests, subscriptions and faults. Behaves as `tests/contract/redis` demands of both.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, copy_context
from typing import Any, Final

import hiredis
from redis.exceptions import ConnectionError as LinkBroken
from redis.exceptions import NoScriptError, OutOfMemoryError, ResponseError

from connectors.redis.memory_commands import SYNTAX, run
from connectors.redis.memory_keys import Answer, Keyspace
from connectors.redis.memory_scripts import TWINS
from connectors.redis.scripts import SCRIPTS, Script
from connectors.redis.settings import RedisSettings

INFO: Final = b"redis_version:7.4.0\r\nmaxmemory_policy:noeviction\r\n"
_GROW: Final = frozenset({"SET", "XADD"})
_ALLOW_OOM: Final = "flags=allow-oom"
Fate = Callable[[str, bytes], Sequence[float]]
"""(channel, message) -> the delay in seconds of each copy that a subscriber gets; none: lost."""


def _once(channel: str, message: bytes) -> Sequence[float]:
    return (0.0,)


class MemoryRedis:
    """The server. `now_us` is its clock in microseconds; one event loop has it and its links.

    Commands run in the context in which it was made, answers in that of whoever connected: a loop that
    tells processes apart by their contexts can stop or kill either end.
    """

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.context = copy_context()
        self.keys = Keyspace(now_us)
        self.keys.publish = self._publish
        self._known: set[str] = set()
        self._sessions: dict[Session, None] = {}
        self._held: list[Callable[[], None]] = []
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.up = True
        self.full = False
        """No memory left: what would grow is refused."""
        self.delay_s: Callable[[], float] = lambda: 0.0
        """Of each way of each command."""
        self.fate: Fate = _once
        """Of each published message."""

    def link(self, settings: RedisSettings | None = None) -> "MemoryLink":
        """What `Calls` and `PushConnection` take for a connection; not connected yet."""
        return MemoryLink(self)

    # --- faults

    def stop(self) -> None:
        """As kill -9: connections break, commands on their way are gone, so is every key."""
        self.up = False
        self.cut(executed=False)
        self.thaw()
        self.keys.flush()
        self._known.clear()

    def start(self) -> None:
        self.up = True

    def freeze(self) -> None:
        """As SIGSTOP: connections stay, commands wait and are executed later."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()
        held, self._held = self._held, []
        for go_on in held:
            self.later(go_on, self.context)

    @property
    def frozen(self) -> bool:
        return not self._thawed.is_set()

    def cut(self, executed: bool, chosen: "Iterable[Session] | None" = None) -> int:
        """Breaks connections, all of them unless chosen; whether commands on their way are executed
        first is what a caller can never know. Returns how many commands were on their way."""
        cut = 0
        for session in [*self._sessions] if chosen is None else [*chosen]:
            cut += session.on_its_way
            if executed:
                session.finish()
            session.break_()
        return cut

    def subscribers(self) -> "list[Session]":
        """Connections with a subscription: those of push connections."""
        return [session for session in self._sessions if session.channels]

    def flush(self) -> None:
        """FLUSHALL by somebody else."""
        self.keys.flush()

    def lose(self, key: str) -> bool:
        """One key is gone, as by an eviction that should never be."""
        return self.keys.exists(key) and self.keys.delete(key)

    # --- connections

    async def accept(self) -> "Session":
        """
        Raises:
            LinkBroken: nobody listens.
        """
        await self._thawed.wait()
        if not self.up:
            raise LinkBroken("refused")
        session = Session(self)
        self._sessions[session] = None
        return session

    def forget(self, session: "Session") -> None:
        self._sessions.pop(session, None)

    def later(self, go_on: Callable[[], None], context: Context, more_s: float = 0.0) -> None:
        """After one way over the wire."""
        delay_s = self.delay_s() + more_s
        loop = asyncio.get_running_loop()
        if delay_s > 0:
            loop.call_later(delay_s, go_on, context=context)
        else:
            loop.call_soon(go_on, context=context)

    def hold(self, go_on: Callable[[], None]) -> None:
        """Until the server is thawed."""
        self._held.append(go_on)

    def execute(self, session: "Session", command: Sequence[bytes]) -> Answer | ResponseError:
        """One command, whole and at once, as Redis executes it."""
        name, given = command[0].decode().upper(), command[1:]
        try:
            match name:
                case "EVALSHA" | "EVAL":
                    return self._script(name, given)
                case "SSUBSCRIBE" | "SUNSUBSCRIBE":
                    return session.subscribe(name, given[0].decode())
                case "SPUBLISH":
                    return self._publish(given[0].decode(), given[1])
                case "PING":
                    return [b"pong", b""] if session.channels else b"PONG"
                case "INFO":
                    return INFO
                case "SCRIPT":
                    self._known.clear()
                    return b"OK"
            if self.full and name in _GROW:
                raise OutOfMemoryError("command not allowed when used memory > 'maxmemory'")
            return run(self.keys, name, given)
        except ResponseError as error:
            return error

    def _script(self, name: str, given: Sequence[bytes]) -> Answer:
        script = _named(given[0].decode())
        if name == "EVALSHA" and script.sha not in self._known:
            raise NoScriptError("No matching script. Please use EVAL.")
        self._known.add(script.sha)
        if self.full and _ALLOW_OOM not in script.source.partition("\n")[0]:
            raise OutOfMemoryError("command not allowed when used memory > 'maxmemory'")
        count = int(given[1])
        names = [key.decode() for key in given[2 : 2 + count]]
        return TWINS[script.name](self.keys, names, given[2 + count :])

    def _publish(self, channel: str, message: bytes) -> int:
        heard = [session for session in self._sessions if channel in session.channels]
        for session in heard:
            for delay_s in self.fate(channel, message):
                session.push([b"smessage", channel.encode(), message], delay_s)
        return len(heard)


def _named(sha_or_source: str) -> Script:
    for script in SCRIPTS:
        if sha_or_source in (script.sha, script.source):
            return script
    raise NoScriptError("No matching script. Please use EVAL.")


class Session:
    """One connection as the server has it: commands come in order, answers go in order."""

    def __init__(self, server: MemoryRedis) -> None:
        self._server = server
        self._context = copy_context()
        self._commands: deque[Sequence[bytes]] = deque()
        self._answers: deque[Any] = deque()
        self._arrived: deque[Any] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self.channels: dict[str, None] = {}
        self.open = True

    @property
    def on_its_way(self) -> int:
        """Commands sent and not answered."""
        return len(self._commands) + len(self._answers)

    def send(self, command: Sequence[bytes]) -> None:
        if self.open:
            self._commands.append(command)
            self._server.later(self._serve, self._server.context)

    async def receive(self) -> Any:
        """
        Raises:
            LinkBroken: the connection broke, and all that arrived was taken.
        """
        while not self._arrived:
            if not self.open:
                raise LinkBroken("connection closed by server")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._arrived.popleft()

    def subscribe(self, name: str, channel: str) -> Answer:
        if name == "SSUBSCRIBE":
            self.channels[channel] = None
        else:
            self.channels.pop(channel, None)
        return [name.lower().encode(), channel.encode(), len(self.channels)]

    def push(self, message: list[bytes], delay_s: float) -> None:
        """A message without a question; one that is late is overtaken by others."""
        if delay_s <= 0:
            self._answer(message)
        else:
            self._server.later(lambda: self._take(message), self._context, delay_s)

    def finish(self) -> None:
        """Executes what is on its way; nobody hears the answers."""
        while self._commands:
            self._server.execute(self, self._commands.popleft())

    def break_(self) -> None:
        self.open = False
        self.channels.clear()
        self._commands.clear()
        self._answers.clear()
        self._server.forget(self)
        self._wake()

    def leave(self) -> None:
        """The client is gone: what it sent is executed all the same."""
        self.channels.clear()
        self.open = False
        self._server.forget(self)

    def _serve(self) -> None:
        if self._server.frozen:
            self._server.hold(self._serve)
        elif self._commands:
            self._answer(self._server.execute(self, self._commands.popleft()))

    def _answer(self, answer: Any) -> None:
        self._answers.append(answer)
        self._server.later(self._arrive, self._context)

    def _arrive(self) -> None:
        if self._answers:
            self._take(self._answers.popleft())

    def _take(self, answer: Any) -> None:
        if self.open:
            self._arrived.append(answer)
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class MemoryLink:
    """A client's connection, in the words of `connectors.redis.connection.Link`."""

    def __init__(self, server: MemoryRedis) -> None:
        self._server = server
        self._session: Session | None = None

    @property
    def is_connected(self) -> bool:
        """As with a socket: a break shows with the next read."""
        return self._session is not None

    async def connect(self) -> None:
        if self._session is None:
            self._session = await self._server.accept()

    async def disconnect(self, nowait: bool = False) -> None:
        self.leave()

    def leave(self) -> None:
        """At once: also what becomes of the connection of a killed process."""
        if self._session is not None:
            self._session.leave()
            self._session = None

    async def send_packed_command(
        self, command: Iterable[bytes], check_health: bool = True
    ) -> None:
        session = self._there()
        parser = hiredis.Reader()
        for packed in command:
            parser.feed(packed)
            told = parser.gets()
            if not isinstance(told, list):
                raise LinkBroken(SYNTAX)
            session.send(told)

    async def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = None,
        *,
        push_request: bool = False,
    ) -> Any:
        try:
            answer = await self._there().receive()
        except LinkBroken:
            await self.disconnect()
            raise
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    def _there(self) -> Session:
        if self._session is None:
            raise LinkBroken("not connected")
        return self._session
