"""`python -m inference --pool smollm2`: one worker of one pool until SIGTERM.

Owns the process: settings, start, health and exit. Exit codes: 0 after SIGTERM, 2 for bad settings,
topics or an unfit Redis or store, 70 where only a restart helps.
"""

import argparse
import asyncio
import os
import signal
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
from inference.log import KafkaLog
from inference.settings import InferenceSettings
from inference.wiring import outside_of, topics_of
from inference.worker import Worker
from topics.errors import SettingsError, TopologyError
from topics.models import POOLS, Model, model_of_pool
from topics.runtime import logs, pace
from topics.runtime.operator import OperatorPort
from topics.runtime.settings import KafkaSettings, ProcessSettings, read
from topics.topology import check

EXIT_REFUSED: Final = 2
EXIT_RESTART: Final = 70
CLOSE_S_MAX: Final = 0.4


_log = structlog.get_logger()


class Process:
    """One worker process from its settings to its exit code."""

    def __init__(self, model: Model, env: Mapping[str, str]) -> None:
        self._model = model
        self._process = read(ProcessSettings, "PROCESS", env)
        self._settings = read(InferenceSettings, "INFERENCE", env)
        self._kafka = read(KafkaSettings, "KAFKA", env)
        self._settings.refuse_outside(self._kafka.local)
        self._store = read(StoreSettings, "STORE", env)
        self._redis = read(RedisSettings, "REDIS", env)
        self._stop = asyncio.Event()
        self._worker: Worker | None = None
        self._waits_for = {"worker": "starting"}

    async def run(self) -> int:
        """The exit code.

        Raises:
            SettingsError, TopologyError, Unfit: refuse to start.
        """
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._on_signal)
        port = OperatorPort("127.0.0.1", self._process.operator_port, self._missing)
        port.start()
        calls = Calls(self._redis)
        try:
            return await self._serve(calls)
        finally:
            await self._close(calls.close)
            port.close()

    async def _serve(self, calls: Calls) -> int:
        topics = topics_of(self._model)
        await asyncio.to_thread(check, self._kafka.bootstrap, topics, self._kafka.local)
        version = await self._reached("redis", lambda: check_policy(calls))
        store = await self._reached("store", lambda: CqlStore.open(self._store))
        if version is None or store is None:
            return 0
        _log.info("worker starts", pool=self._model.pool, redis=version)
        log = KafkaLog(self._kafka, asyncio.get_running_loop(), self._fatal)
        outside = outside_of(self._model, log, calls, store)
        self._worker = Worker(outside, self._settings, self._model, self._process.incarnation_name)
        if self._stop.is_set():
            self._worker.stop()
        reason = await self._worker.run()
        _log.info("worker ended", reason=reason)
        await self._close(outside.engine.close, store.close)
        log.close(CLOSE_S_MAX)
        return 0 if reason is None else EXIT_RESTART

    async def _reached(self, name: str, ask: Callable[[], Awaitable[Value]]) -> Value | None:
        self._waits_for = {name: "not reached yet"}
        return await reached(name, ask, self._stop)

    async def _close(self, *closes: Callable[[], Awaitable[None]]) -> None:
        try:
            async with asyncio.timeout(CLOSE_S_MAX):
                await asyncio.gather(*(close() for close in closes), return_exceptions=True)
        except TimeoutError:
            _log.warning("closed without waiting")

    def _missing(self) -> Mapping[str, str]:
        return self._waits_for if self._worker is None else self._worker.missing()

    def _on_signal(self) -> None:
        self._stop.set()
        if self._worker is not None:
            self._worker.stop()

    def _fatal(self, reason: str) -> None:
        if self._worker is not None:
            self._worker.fatal(f"log: {reason}")


def main() -> None:
    """Never returns: threads of clients must not hold up the exit."""
    parser = argparse.ArgumentParser(prog="python -m inference")
    parser.add_argument("--pool", required=True, choices=POOLS)
    model = model_of_pool(parser.parse_args().pool)
    logs.configure(f"worker-{model.pool}")

    async def run() -> NoReturn:
        try:
            code = await Process(model, os.environ).run()
        except (SettingsError, TopologyError, Unfit) as error:
            _log.error("worker refuses to start", reason=str(error))
            code = EXIT_REFUSED
        # At once: the loop's own end would wait for threads that wait for a broker.
        sys.stdout.flush()
        os._exit(code)

    # What was imported lives as long as the process: no collection needs to look at it again.
    pace.serve()
    uvloop.run(run())


if __name__ == "__main__":
    main()
