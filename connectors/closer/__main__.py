"""`python -m connectors.closer`: waits for Redis and the store, then closes until SIGTERM."""

import asyncio
import os
import signal
import sys
from typing import Final

import structlog
import uvloop

from connectors.closer.process import GROUP, Closer, Join
from connectors.closer.settings import CloserSettings
from connectors.errors import Unfit
from connectors.log import LogProducer, LogReader
from connectors.reach import reached
from connectors.redis.calls import Calls
from connectors.redis.policy import check_policy
from connectors.redis.settings import RedisSettings
from connectors.store.cql import CqlStore
from connectors.store.settings import StoreSettings
from topics.errors import SettingsError, TopologyError
from topics.registry import CONTROL_STREAMS, RUNS_INBOX
from topics.runtime import pace
from topics.runtime.logs import configure
from topics.runtime.operator import OperatorPort
from topics.runtime.settings import KafkaSettings, ProcessSettings, read
from topics.topology import check

FLUSH_S_MAX: Final = 5.0
CONFIGURATION_WRONG: Final = 2


_log = structlog.get_logger()


async def closer() -> None:
    """The whole life of the process."""
    loop = asyncio.get_running_loop()
    process = read(ProcessSettings, "PROCESS", os.environ)
    settings = read(CloserSettings, "CLOSER", os.environ)
    kafka = read(KafkaSettings, "KAFKA", os.environ)
    store_settings = read(StoreSettings, "STORE", os.environ)
    calls = Calls(read(RedisSettings, "REDIS", os.environ))

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)

    missing = dict.fromkeys(("log", "redis", "store"), "not reached yet")
    current: list[Closer] = []
    port = OperatorPort(
        "127.0.0.1",
        process.operator_port,
        lambda: current[0].readiness() if current else dict(missing),
    )
    port.start()
    try:
        topics = [CONTROL_STREAMS, RUNS_INBOX]
        await asyncio.to_thread(check, kafka.bootstrap, topics, kafka.local)
        del missing["log"]
        version = await reached("redis", lambda: check_policy(calls), stop)
        if version is None:
            return
        del missing["redis"]
        store = await reached("store", lambda: CqlStore.open(store_settings), stop)
        if store is None:
            return
        producer = LogProducer(
            kafka.bootstrap, kafka.local, loop, lambda reason: current[0].fail(reason)
        )
        current.append(Closer(settings, calls, store, producer))
        _log.info("closer_started", redis=version)
        pace.serve()
        try:
            await current[0].run(_member(kafka.bootstrap, process.incarnation_name, loop), stop)
        finally:
            await asyncio.to_thread(producer.close, FLUSH_S_MAX)
            await store.close()
    finally:
        await calls.close()
        port.close()


def _member(bootstrap: str, static_id: str, loop: asyncio.AbstractEventLoop) -> Join:
    return lambda deliver, revoked: LogReader.grouped(
        bootstrap, loop, [CONTROL_STREAMS], GROUP, static_id, deliver, revoked
    )


def main() -> int:
    configure("closer")
    try:
        uvloop.run(closer())
    except (SettingsError, TopologyError, Unfit) as error:
        _log.error("closer_refused", reason=str(error))
        return CONFIGURATION_WRONG
    return 0


if __name__ == "__main__":
    sys.exit(main())
