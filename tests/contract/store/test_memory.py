"""The store's contract on the twin in memory."""

import time

import pytest

from connectors.errors import StoreUnavailable
from connectors.store import Store
from connectors.store.memory import MemoryStore
from connectors.store.settings import StoreSettings
from tests.contract.store.suite import StoreContract


class TestMemoryStore(StoreContract):
    async def open_store(self, results_ttl_s: int) -> Store:
        return MemoryStore(time.monotonic, StoreSettings(results_ttl_s=results_ttl_s))


async def test_a_twin_can_be_away() -> None:
    store = MemoryStore(time.monotonic, StoreSettings())
    store.away = True
    with pytest.raises(StoreUnavailable):
        await store.result("gen_1")
