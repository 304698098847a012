"""All calls of one process to Redis: a few connections, many commands a round trip.

Owns batching, deadlines and the mapping of failures to our errors. Every command given here may
run twice: after a broken connection a batch is sent once more.
"""

import asyncio
from typing import Any, Final

import msgspec
from redis.exceptions import (
    ConnectionError as LinkBroken,
)
from redis.exceptions import (
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from connectors.errors import RedisAway, RedisFull, RedisRefused
from connectors.redis.connection import (
    BROKEN,
    Argument,
    Link,
    MakeLink,
    connect,
    new_connection,
    packed,
)
from connectors.redis.scripts import Script
from connectors.redis.settings import RedisSettings

BATCH_CALLS_MAX: Final = 128


class _Call(msgspec.Struct, eq=False):
    command: tuple[Argument, ...]
    instead: tuple[Argument, ...] | None
    """Sent where Redis does not know the script yet."""
    answer: asyncio.Future[Any]


class Calls:
    """Shared by everything in a process that asks Redis. Used from one event loop."""

    def __init__(self, settings: RedisSettings, make_link: MakeLink = new_connection) -> None:
        self._settings = settings
        self._make_link = make_link
        self._waiting: asyncio.Queue[_Call] = asyncio.Queue(settings.waiting_calls_max)
        self._lanes: list[asyncio.Task[None]] = []
        self._closed = False

    async def command(self, *command: Argument) -> Any:
        """The raw answer of one command that is harmless twice.

        Raises:
            RedisAway: no answer within the deadline.
            RedisFull: refused for want of memory.
            RedisRefused: any other error Redis answers with.
        """
        return await self._ask(command, None)

    async def script(self, script: Script, keys: list[str], arguments: list[Argument]) -> Any:
        """The raw answer of one script; errors as for `command`."""
        rest = (len(keys), *keys, *arguments)
        return await self._ask(("EVALSHA", script.sha, *rest), ("EVAL", script.source, *rest))

    async def close(self) -> None:
        """Ends the connections; calls that wait are answered as if Redis were away."""
        self._closed = True
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)
        while not self._waiting.empty():
            _fail(self._waiting.get_nowait(), RedisAway("closed"))

    async def _ask(
        self, command: tuple[Argument, ...], instead: tuple[Argument, ...] | None
    ) -> Any:
        if self._closed:
            raise RedisAway("closed")
        self._start_lanes()
        call = _Call(command, instead, asyncio.get_running_loop().create_future())
        try:
            self._waiting.put_nowait(call)
        except asyncio.QueueFull as error:
            raise RedisAway("too many calls wait") from error
        try:
            async with asyncio.timeout(self._settings.deadline_s):
                return await call.answer
        except TimeoutError as error:
            raise RedisAway("no answer within the deadline") from error

    def _start_lanes(self) -> None:
        """A lane that ended for an unknown reason is replaced with the next call."""
        self._lanes = [lane for lane in self._lanes if not lane.done()]
        while len(self._lanes) < self._settings.connections:
            self._lanes.append(asyncio.create_task(self._lane(), name="redis-calls"))

    async def _lane(self) -> None:
        connection = self._make_link(self._settings)
        batch: list[_Call] = []
        try:
            while True:
                batch = await self._take()
                try:
                    await self._exchange(connection, batch)
                except BROKEN as error:
                    await connection.disconnect(nowait=True)
                    for call in batch:
                        _fail(call, RedisAway(type(error).__name__))
        finally:
            for call in batch:
                _fail(call, RedisAway("closed"))
            await connection.disconnect(nowait=True)

    async def _take(self) -> list[_Call]:
        batch: list[_Call] = []
        while not batch:
            batch = [await self._waiting.get()]
            while len(batch) < BATCH_CALLS_MAX and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            # Who gave up while waiting is not asked for any more.
            batch = [call for call in batch if not call.answer.done()]
        return batch

    async def _exchange(self, connection: Link, batch: list[_Call]) -> None:
        commands = [call.command for call in batch]
        if connection.is_connected:
            try:
                answers = await self._round(connection, commands)
            except LinkBroken:
                # An idle connection may have died unseen; a fresh one decides.
                await connection.disconnect(nowait=True)
                answers = await self._round_on_fresh(connection, commands)
        else:
            answers = await self._round_on_fresh(connection, commands)
        unknown = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if unknown:
            whole = [batch[at].instead or batch[at].command for at in unknown]
            for at, answer in zip(unknown, await self._round(connection, whole), strict=True):
                answers[at] = answer
        for call, answer in zip(batch, answers, strict=True):
            _settle(call, answer)

    async def _round(self, connection: Link, commands: list[tuple[Argument, ...]]) -> list[Any]:
        """One write, all answers. One deadline for all: a connection that misses it is given up,
        so no answer can be taken for another call's."""
        answers: list[Any] = []
        async with asyncio.timeout(self._settings.deadline_s):
            await connection.send_packed_command(
                [packed(command) for command in commands], check_health=False
            )
            for _ in commands:
                try:
                    answers.append(await connection.read_response(disable_decoding=True))
                except ResponseError as error:
                    answers.append(error)
        return answers

    async def _round_on_fresh(
        self, connection: Link, commands: list[tuple[Argument, ...]]
    ) -> list[Any]:
        await connect(connection, self._settings.deadline_s)
        return await self._round(connection, commands)


def _settle(call: _Call, answer: Any) -> None:
    if isinstance(answer, OutOfMemoryError):
        _fail(call, RedisFull("no memory left"))
    elif isinstance(answer, ReadOnlyError):
        _fail(call, RedisAway("read only"))
    elif isinstance(answer, ResponseError):
        # The text may quote a command, and a command may hold private text.
        _fail(call, RedisRefused(f"{type(answer).__name__} on {call.command[0]!s}"))
    elif not call.answer.done():
        call.answer.set_result(answer)


def _fail(call: _Call, error: Exception) -> None:
    if not call.answer.done():
        call.answer.set_exception(error)
