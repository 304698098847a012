"""The store's contract, its migrations and its failures on the real store.

`MILENA_STORE_PORT` names one that runs already; otherwise the suite's stack is used.
"""

import asyncio
import os
import secrets
from collections.abc import Iterator

import msgspec
import pytest

from connectors.errors import StoreUnavailable, Unfit
from connectors.store import Store
from connectors.store.cql import CqlStore
from connectors.store.schema import VERSION, migrate
from connectors.store.session import new_cluster
from connectors.store.settings import StoreSettings
from ops.stack.fresh import FreshStack
from tests.contract.store.suite import StoreContract
from tests.support.redis_server import free_port
from topics.runtime.settings import read

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def migrated(request: pytest.FixtureRequest) -> Iterator[StoreSettings]:
    """A keyspace of the module's own."""
    if "MILENA_STORE_PORT" in os.environ:
        given = read(StoreSettings, "STORE", os.environ)
    else:
        stack: FreshStack = request.getfixturevalue("stack")
        given = StoreSettings(port=stack.base + 12)
    settings = msgspec.structs.replace(given, keyspace=f"test_{secrets.token_hex(6)}")
    with pytest.raises(Unfit, match="milena store migrate"):
        asyncio.run(CqlStore.open(settings))
    assert migrate(settings, 1) == tuple(range(1, VERSION + 1))
    yield settings
    cluster = new_cluster(settings)
    cluster.connect().execute(f"DROP KEYSPACE {settings.keyspace}", timeout=60)
    cluster.shutdown()


class TestCqlStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _settings(self, migrated: StoreSettings) -> None:
        self.settings = migrated

    async def open_store(self, results_ttl_s: int) -> Store:
        return await CqlStore.open(
            msgspec.structs.replace(self.settings, results_ttl_s=results_ttl_s)
        )


def test_a_second_migration_does_nothing(migrated: StoreSettings) -> None:
    assert migrate(migrated, 2) == ()


async def test_many_calls_at_once_each_get_their_own_answer(migrated: StoreSettings) -> None:
    store = await CqlStore.open(migrated)
    hashes = [secrets.token_bytes(16) for _ in range(200)]
    assert await asyncio.gather(*(store.key(name) for name in hashes)) == 200 * [None]
    await store.close()


async def test_an_absent_store_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        await CqlStore.open(StoreSettings(port=free_port()))
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(migrate, StoreSettings(port=free_port()), 1)


async def test_a_closed_store_is_unavailable(migrated: StoreSettings) -> None:
    store = await CqlStore.open(migrated)
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.result("gen_1")
