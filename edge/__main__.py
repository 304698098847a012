"""`python -m edge`: one edge until SIGTERM.

Owns the process: settings, start, health and exit. Exit codes: 0 after SIGTERM, 2 for bad settings,
topics, a taken port or an unfit Redis or store, 70 where only a restart helps.
"""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NoReturn

import structlog
import uvloop

from connectors.errors import Unfit
from connectors.reach import Value, reached
from connectors.redis.calls import Calls
from connectors.redis.policy import check_policy
from connectors.redis.settings import RedisSettings
from connectors.store.cql import CqlStore
from connectors.store.settings import StoreSettings
from edge.app import build
from edge.readiness import Readiness
from edge.server import allow_many_sockets, listen, make_server, serve
from edge.settings import (
    EdgeSettings,
    port_base,
    scripted_model_on,
    secret_of,
    secret_path,
)
from edge.wiring import Wired, wire
from topics.errors import SettingsError, TopologyError
from topics.registry import ACCOUNTS_INBOX, EDGE_REPLIES, RUNS_INBOX
from topics.runtime import logs, pace
from topics.runtime.operator import OperatorPort
from topics.runtime.settings import KafkaSettings, ProcessSettings, read
from topics.topology import check

EXIT_REFUSED: Final = 2
EXIT_RESTART: Final = 70
CLOSE_S_MAX: Final = 2.0
WATCH_S: Final = 1.0


_log = structlog.get_logger()


class Process:
    """One edge process from its settings to its exit code."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._settings = read(EdgeSettings, "EDGE", env)
        self._process = read(ProcessSettings, "PROCESS", env)
        self._kafka = read(KafkaSettings, "KAFKA", env)
        self._redis = read(RedisSettings, "REDIS", env)
        self._store = read(StoreSettings, "STORE", env)
        self._secret = secret_of(secret_path(self._settings, env))
        self._scripted = scripted_model_on(env)
        base = port_base(env)
        self._port = self._settings.port or base
        self._operator_port = self._settings.operator_port or base + 1
        self._stop = asyncio.Event()
        self._broken: str | None = None
        self._waits_for: Mapping[str, str] = {"edge": "starting"}
        self._readiness: Readiness | None = None

    async def run(self) -> int:
        """The exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)
        allow_many_sockets()
        listening = listen(self._settings.host, self._port, self._settings.socket_send_bytes)
        operator = OperatorPort("127.0.0.1", self._operator_port, self._missing)
        operator.start()
        wired: Wired | None = None
        try:
            wired = await self._start()
            if wired is not None:
                await self._serve(wired, listening)
        finally:
            listening.close()
            if wired is not None:
                await wired.close(CLOSE_S_MAX)
            operator.close()
        if self._broken is not None:
            _log.error("edge_broken", reason=self._broken)
        return 0 if self._broken is None else EXIT_RESTART

    async def _start(self) -> Wired | None:
        """Everything a request needs, or None where the process is told to stop meanwhile."""
        topics = [ACCOUNTS_INBOX, RUNS_INBOX, EDGE_REPLIES]
        await asyncio.to_thread(check, self._kafka.bootstrap, topics, self._kafka.local)
        calls = Calls(self._redis)
        version = await self._reached("redis", lambda: check_policy(calls))
        store = await self._reached("store", lambda: CqlStore.open(self._store))
        if version is None or store is None:
            await calls.close()
            return None
        wired = wire(
            settings=self._settings,
            secret=self._secret,
            kafka=self._kafka,
            redis=self._redis,
            calls=calls,
            store=store,
            name=self._process.incarnation_name,
            scripted=self._scripted,
            fatal=self._fatal,
        )
        await asyncio.to_thread(wired.parts.models.load)
        _log.info("edge_starts", redis=version, port=self._port)
        return wired

    async def _serve(self, wired: Wired, listening: socket.socket) -> None:
        parts, settings = wired.parts, self._settings
        try:
            await wired.reader.ready()
        except TimeoutError:
            self._fatal(f"replies cannot be read: {wired.reader.failed or 'no answer'}")
            return
        readiness = Readiness(parts, self._kafka.local, lambda: wired.reader.failed)
        self._readiness = readiness
        tasks = [
            asyncio.create_task(parts.hub.run()),
            asyncio.create_task(readiness.run(lambda: check_policy(wired.calls))),
            asyncio.create_task(self._watch(wired)),
        ]
        for task in tasks:
            task.add_done_callback(self._ended)
        pace.serve()
        server = make_server(build(parts), settings.drain_s)
        await serve(server, listening, parts.hub, settings.drain_s, self._stop)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, wired: Wired) -> None:
        """A reader that can never read again shows only here."""
        while wired.reader.failed is None:  # noqa: ASYNC110  (a thread sets it)
            await asyncio.sleep(WATCH_S)
        self._fatal(f"replies cannot be read: {wired.reader.failed}")

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fatal(f"a loop of the edge failed: {type(error).__name__}")

    async def _reached(self, name: str, ask: Callable[[], Awaitable[Value]]) -> Value | None:
        self._waits_for = {name: "not reached yet"}
        return await reached(name, ask, self._stop)

    def _missing(self) -> Mapping[str, str]:
        return self._waits_for if self._readiness is None else self._readiness.missing()

    def _on_signal(self) -> None:
        if self._readiness is not None:
            self._readiness.drain()
        self._stop.set()

    def _fatal(self, reason: str) -> None:
        self._broken = self._broken or reason
        self._on_signal()


def _refuse(error: Exception) -> NoReturn:
    print(f"edge does not start: {error}", file=sys.stderr)  # noqa: T201
    raise SystemExit(EXIT_REFUSED) from error


def main() -> None:
    """Runs until SIGTERM and exits with the process's code."""
    logs.configure("edge")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(Process(os.environ).run())
    except (SettingsError, TopologyError, Unfit) as error:
        _refuse(error)
    except OSError as error:
        _refuse(error)
    raise SystemExit(code)


if __name__ == "__main__":
    main()
