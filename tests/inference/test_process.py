"""The whole process but its interpreter: settings in, health while it runs, an exit code out.

The broker is librdkafka's own mock, so the log's real clients and threads are in play; Redis is real, the
store is its twin in memory.
"""

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from connectors.store.cql import CqlStore
from connectors.store.memory import MemoryStore
from connectors.store.settings import StoreSettings
from inference import __main__ as process
from inference.wiring import topics_of
from tests.inference.played import Clock
from tests.inference.support import until
from tests.support.redis_server import RedisServer, free_port
from topics.errors import SettingsError
from topics.models import SCRIPTED


@pytest.fixture
def bootstrap() -> Iterator[str]:
    """A mock broker that lives as long as the producer that made it."""
    owner = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    for topic in topics_of(SCRIPTED):  # asked for by a producer, a topic is made
        owner.list_topics(topic.name, timeout=10)
    (broker,) = owner.list_topics(timeout=10).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del owner


@pytest.fixture
def environment(bootstrap: str, redis: RedisServer) -> dict[str, str]:
    return {
        "MILENA_KAFKA_BOOTSTRAP": bootstrap,
        "MILENA_REDIS_URL": redis.url,
        "MILENA_PROCESS_OPERATOR_PORT": str(free_port()),
        "MILENA_PROCESS_INCARNATION_NAME": "scripted-0",
    }


def asked(port: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""  # the port is not open yet


async def test_it_starts_tells_its_health_and_ends_at_sigterm(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    async def opened(_: StoreSettings) -> MemoryStore:
        return MemoryStore(clock.s, StoreSettings())

    def unchecked(*_: Any) -> None:
        """The mock broker makes topics as they are asked for."""

    monkeypatch.setattr(CqlStore, "open", opened)
    monkeypatch.setattr(process, "check", unchecked)
    port = environment["MILENA_PROCESS_OPERATOR_PORT"]
    running = asyncio.create_task(process.Process(SCRIPTED, environment).run())
    seen: list[tuple[int, str]] = []

    async def look() -> None:
        while not seen or seen[-1][0] != 200:
            seen.append(await asyncio.to_thread(asked, port, "/readyz"))
            await asyncio.sleep(0.05)

    await asyncio.wait_for(look(), 30)
    missing = [set(json.loads(body)["missing"]) for status, body in seen if status == 503]
    assert all(missing)
    assert "lanes" in missing[-1], "its lanes come last"
    status, text = await asyncio.to_thread(asked, port, "/metrics")
    assert status == 200
    assert "milena_worker_heartbeat_age_seconds" in text
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(running, 10) == 0


async def test_sigterm_while_it_waits_for_redis_ends_it(
    environment: dict[str, str], redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "check", lambda *_: None)
    away = {**environment, "MILENA_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    made = process.Process(SCRIPTED, away)
    running = asyncio.create_task(made.run())
    await until(lambda: made._missing() == {"redis": "not reached yet"})
    os.kill(os.getpid(), signal.SIGTERM)
    assert await asyncio.wait_for(running, 10) == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MILENA_INFERENCE_FLUSH_MS", "1"),
        ("MILENA_INFERENCE_HEARTBEAT_S", "9"),
        ("MILENA_INFERENCE_TYPO", "1"),
        ("MILENA_PROCESS_OPERATOR_PORT", "70000"),
    ],
)
async def test_bad_settings_refuse_to_start(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name.rsplit("_", 1)[0][:12]):
        process.Process(SCRIPTED, {name: value})
