"""What may be committed, and lanes: many keys at once, one key in order."""

import asyncio
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.closer.lanes import Lanes
from connectors.closer.low_water import LowWater

PLACE = ("control.streams", 0)


@given(st.permutations(range(8)), st.integers(0, 8))
def test_nothing_is_committed_past_what_is_open(order: list[int], done: int) -> None:
    marks = LowWater()
    for offset in range(10, 18):
        marks.taken(PLACE, offset)
    told: list[int] = []
    for at in order[:done]:
        marks.done(PLACE, 10 + at)
        told += marks.news().values()
    expected = 10 + min(order[done:], default=8)
    assert told == sorted(set(told))
    if expected > 10:
        assert told[-1] == expected


def test_only_news_are_told_and_partitions_are_apart() -> None:
    marks = LowWater()
    other = ("control.streams", 1)
    marks.taken(PLACE, 5)
    marks.taken(other, 90)
    assert marks.news() == {PLACE: 5, other: 90}
    assert marks.news() == {}
    marks.done(other, 90)
    assert marks.news() == {other: 91}


def test_a_partition_given_up_is_forgotten() -> None:
    marks = LowWater()
    marks.taken(PLACE, 5)
    marks.forget(PLACE)
    marks.done(PLACE, 5)
    assert marks.news() == {}
    marks.taken(PLACE, 5)
    marks.done(PLACE, 5)
    assert marks.news() == {PLACE: 6}


async def test_one_key_is_in_order_and_keys_run_together_within_the_bound() -> None:
    seen: dict[str, list[int]] = defaultdict(list)
    running: set[str] = set()
    most = 0

    async def work(item: tuple[str, int]) -> None:
        nonlocal most
        key, number = item
        assert key not in running
        running.add(key)
        most = max(most, len(running))
        for _ in range(3):
            await asyncio.sleep(0)
        running.discard(key)
        seen[key].append(number)

    failed: list[BaseException] = []
    lanes: Lanes[tuple[str, int]] = Lanes(work, 4, failed.append)
    for number in range(20):
        for key in "abcdefgh":
            lanes.put(key, (key, number))
    assert lanes.waiting == 160
    async with asyncio.timeout(5):
        while lanes.in_flight or lanes.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert most == 4
    assert failed == []
    assert dict(seen) == {key: [*range(20)] for key in "abcdefgh"}


async def test_a_fault_in_the_work_is_told() -> None:
    async def work(item: int) -> None:
        raise ZeroDivisionError(item)

    failed: list[BaseException] = []
    lanes: Lanes[int] = Lanes(work, 4, failed.append)
    lanes.put("a", 1)
    await lanes.finish(1)
    await asyncio.sleep(0)
    assert [type(error) for error in failed] == [ZeroDivisionError]


@pytest.mark.parametrize("timeout_s", [0.0, 5.0])
async def test_finish_waits_for_what_is_in_flight_or_cancels_it(timeout_s: float) -> None:
    release = asyncio.Event()
    done: list[str] = []

    async def work(item: str) -> None:
        await release.wait()
        done.append(item)

    failed: list[BaseException] = []
    lanes: Lanes[str] = Lanes(work, 1, failed.append)
    lanes.put("a", "a")
    lanes.put("b", "b")
    await asyncio.sleep(0)
    if timeout_s:
        release.set()
    await lanes.finish(timeout_s)
    assert done == (["a"] if timeout_s else [])
    assert failed == []
