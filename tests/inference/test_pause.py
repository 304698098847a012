"""The test-only pause: a worker can be killed between the last token and the row, and between the row
and `Finished`; nobody can turn it on where people are served."""

import pytest

from inference import metrics
from inference.__main__ import Process
from inference.settings import InferenceSettings
from tests.inference.support import QUICK, Bench, bench, until
from tests.support.redis_server import RedisServer
from topics.errors import SettingsError
from topics.models import SCRIPTED
from topics.runtime.settings import read


def paused_at(point: str, seconds: float) -> InferenceSettings:
    env = {"MILENA_INFERENCE_PAUSE_AT": point, "MILENA_INFERENCE_PAUSE_S": str(seconds)}
    given = read(InferenceSettings, "INFERENCE", env)
    return InferenceSettings(
        flush_ms=QUICK.flush_ms,
        idle_ms=QUICK.idle_ms,
        heartbeat_s=QUICK.heartbeat_s,
        drain_s=QUICK.drain_s,
        pause_at=given.pause_at,
        pause_s=given.pause_s,
    )


def paused() -> float:
    [family] = metrics.PAUSED.collect()
    return family.samples[0].value


async def killed_at(b: Bench) -> str:
    """The answer whose worker was killed at the point; all of its text is shown."""
    generation = await b.ask({"text": "all of it", "prefill_ms": 5})
    await until(lambda: paused() == 1)
    await b.kill()
    assert await b.shown(generation) == "all of it"
    assert b.machines.ended(generation) is None
    return generation


async def test_killed_before_the_row_there_is_none(redis: RedisServer) -> None:
    async with bench(redis.url, settings=paused_at("row", 30)) as b:
        generation = await killed_at(b)
        assert await b.store.result(generation) is None
        # Nothing of the worker is left that could still write.
        answer = await b.streams.fence(generation, 2)
        assert answer.text == "all of it"


async def test_killed_behind_the_row_it_is_whole_and_nobody_knows(redis: RedisServer) -> None:
    async with bench(redis.url, settings=paused_at("finished", 30)) as b:
        generation = await killed_at(b)
        row = await b.store.result(generation)
        assert row is not None
        assert (row.text, row.ended) == ("all of it", False)


@pytest.mark.parametrize("point", ["row", "finished"])
async def test_left_alone_it_goes_on(redis: RedisServer, point: str) -> None:
    async with bench(redis.url, settings=paused_at(point, 0.1)) as b:
        generation = await b.ask({"text": "all of it", "prefill_ms": 5})
        finished = await b.finished(generation)
        assert finished.code_points == len("all of it")
        assert paused() == 0


def test_outside_of_tests_it_is_refused() -> None:
    env = {"MILENA_INFERENCE_PAUSE_AT": "row", "MILENA_KAFKA_LOCAL": "false"}
    with pytest.raises(SettingsError, match="PAUSE_AT"):
        Process(SCRIPTED, env)
    with pytest.raises(SettingsError):
        read(InferenceSettings, "INFERENCE", {"MILENA_INFERENCE_PAUSE_AT": "anywhere"})
    for seconds in ("0", "61"):
        with pytest.raises(SettingsError, match="pause_s"):
            read(InferenceSettings, "INFERENCE", {"MILENA_INFERENCE_PAUSE_S": seconds})
