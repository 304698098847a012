"""The waiting line in front of an engine."""

import asyncio

import pytest

from inference.engines.base import EngineError, EngineErrorKind
from inference.engines.slots import Slots


async def test_slots_are_handed_out_in_the_order_of_asking() -> None:
    slots = Slots(1, 8)
    first = await slots.take(("a", 1), None)
    assert first is not None
    order: list[str] = []

    async def ask(name: str) -> None:
        slot = await slots.take((name, 1), None)
        assert slot is not None
        order.append(name)
        slots.give_back(slot)

    tasks = [asyncio.create_task(ask(name)) for name in "bcd"]
    await asyncio.sleep(0)
    assert (slots.load().running, slots.load().waiting) == (1, 3)
    slots.give_back(first)
    await asyncio.gather(*tasks)
    assert order == ["b", "c", "d"]
    assert (slots.load().running, slots.load().waiting) == (0, 0)


async def test_a_withdrawn_or_cancelled_wait_takes_nothing() -> None:
    slots = Slots(1, 8)
    held = await slots.take(("a", 1), None)
    assert held is not None
    withdrawn = asyncio.create_task(slots.take(("b", 1), None))
    cancelled = asyncio.create_task(slots.take(("c", 1), None))
    late = asyncio.create_task(slots.take(("d", 1), None))
    await asyncio.sleep(0)
    slots.withdraw(("b", 1))
    slots.withdraw(("nobody", 1))
    cancelled.cancel()
    slots.give_back(held)  # before the cancelled one has run: it must not keep the slot
    assert await withdrawn is None
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert await late is not None
    assert (slots.load().running, slots.load().waiting) == (1, 0)


async def test_a_slot_granted_to_a_wait_that_is_cancelled_goes_to_the_next() -> None:
    slots = Slots(1, 8)
    held = await slots.take(("a", 1), None)
    assert held is not None
    granted = asyncio.create_task(slots.take(("b", 1), None))
    after = asyncio.create_task(slots.take(("c", 1), None))
    await asyncio.sleep(0)
    slots.give_back(held)
    granted.cancel()
    with pytest.raises(asyncio.CancelledError):
        await granted
    assert await after is not None


async def test_the_line_is_bounded() -> None:
    slots = Slots(1, 1)
    await slots.take(("a", 1), None)
    waiting = asyncio.create_task(slots.take(("b", 1), None))
    await asyncio.sleep(0)
    with pytest.raises(EngineError) as caught:
        await slots.take(("c", 1), None)
    assert caught.value.kind is EngineErrorKind.BACKEND_ERROR
    slots.withdraw(("b", 1))
    assert await waiting is None


async def test_a_cache_is_met_again_only_under_the_same_salt() -> None:
    slots = Slots(2, 8)
    ann = await slots.take(("a", 1), "ann")
    assert ann is not None
    assert not ann.warm
    slots.give_back(ann)
    ben = await slots.take(("b", 1), "ben")
    assert ben is not None
    assert (ben.index, ben.warm) == (1 - ann.index, False)
    again = await slots.take(("a", 2), "ann")
    assert again is not None
    assert (again.index, again.warm) == (ann.index, True)
    slots.give_back(again)
    slots.give_back(ben)
    for _ in range(2):
        nobody = await slots.take(("n", 1), None)
        assert nobody is not None
        assert not nobody.warm
        slots.give_back(nobody)
