"""The store's contract on the twin in memory, and the faults that only the twin has on demand."""

import asyncio
import time

import pytest

from connectors.errors import StoreUnavailable, Unfit
from connectors.store import RowPhase, Store
from connectors.store.memory import Fate, MemoryStore
from connectors.store.settings import StoreSettings
from tests.contract.store.suite import StoreContract, result, workers

GEN = "gen_1"


class TestMemoryStore(StoreContract):
    async def open_store(self, results_ttl_s: int) -> Store:
        return MemoryStore(time.monotonic, StoreSettings(results_ttl_s=results_ttl_s))


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(time.monotonic, StoreSettings(deadline_s=0.05))


async def test_a_twin_can_be_away(store: MemoryStore) -> None:
    store.away = True
    with pytest.raises(StoreUnavailable):
        await store.result(GEN)


async def test_a_twin_can_have_other_tables(store: MemoryStore) -> None:
    store.unfit = True
    with pytest.raises(Unfit):
        await store.put_result(result(GEN), RowPhase.FINAL)


@pytest.mark.parametrize("applied", [True, False])
async def test_an_unknown_outcome_is_one_of_both(store: MemoryStore, applied: bool) -> None:
    store.fate = lambda call: Fate(applied=applied, answered=False)
    with pytest.raises(StoreUnavailable):
        await store.put_result(result(GEN), RowPhase.FINAL)
    assert (store.kept_result(GEN) is not None) is applied
    with pytest.raises(StoreUnavailable):
        await store.result(GEN)


async def test_a_write_past_its_deadline_comes_late_and_loses_to_a_higher_epoch(
    store: MemoryStore,
) -> None:
    store.fate = lambda call: Fate(after_s=0.1)
    with pytest.raises(StoreUnavailable):
        await store.put_result(workers(GEN, 1, "late"), RowPhase.FINAL)
    assert store.kept_result(GEN) is None
    store.fate = lambda call: Fate(after_s=0.01)
    await store.put_result(result(GEN), RowPhase.FINAL)
    await asyncio.sleep(0.15)
    assert store.kept_result(GEN) == result(GEN)
    assert await store.result(GEN) == result(GEN)
