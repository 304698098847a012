"""Keys over a store in memory: made once, kept as hashes, revoked for good."""

import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from connectors.errors import StoreUnavailable
from connectors.store.keys import hash_key
from connectors.store.memory import MemoryStore
from connectors.store.settings import StoreSettings
from ops.cli.keys_book import LOCAL_TIERS, new_key, new_row, revoke, seed
from schemas.generated.types import Tier

SECRET = b"s" * 32
AT_MS = 1_796_000_000_000


def counting() -> Callable[[int], bytes]:
    """Randomness that never repeats and is the same in every run."""
    drawn = iter(range(1, 10_000))
    return lambda size: next(drawn).to_bytes(size, "big")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: 0.0, StoreSettings())


def keys_in(path: Path) -> dict[str, str]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, str])


def test_a_new_key_is_found_by_its_hash_alone() -> None:
    random = counting()
    key = new_key(random)
    row = new_row(key, SECRET, Tier.PAID, "ann", AT_MS, random)
    assert key.startswith("mk_")
    assert len(key) == 3 + 32
    assert row.key_hash == hash_key(SECRET, key)
    assert key not in msgspec.json.encode(row).decode()
    assert row.key_id.startswith("key_")
    assert row.user_id.startswith("usr_")
    assert new_row(key, SECRET, Tier.PAID, "", AT_MS, random, "usr_1").user_id == "usr_1"


async def test_seeding_makes_one_key_a_tier_and_is_done_twice(
    store: MemoryStore, tmp_path: Path
) -> None:
    path, random = tmp_path / "keys.json", counting()
    assert await seed(store, SECRET, path, AT_MS, random) == list(LOCAL_TIERS)
    keys = keys_in(path)
    assert list(keys) == ["free", "paid", "operator"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for tier, key in keys.items():
        row = await store.key(hash_key(SECRET, key))
        assert row is not None
        assert row.tier == tier
    assert len({row.user_id for row in await store.keys()}) == 3
    assert await seed(store, SECRET, path, AT_MS + 1, random) == []
    assert keys_in(path) == keys
    assert len(await store.keys()) == 3


async def test_a_store_that_was_emptied_gets_the_same_keys_again(
    store: MemoryStore, tmp_path: Path
) -> None:
    path, random = tmp_path / "keys.json", counting()
    await seed(store, SECRET, path, AT_MS, random)
    keys = keys_in(path)
    emptied = MemoryStore(lambda: 0.0, StoreSettings())
    assert await seed(emptied, SECRET, path, AT_MS, random) == list(LOCAL_TIERS)
    assert keys_in(path) == keys, "somebody may already use them"
    assert await emptied.key(hash_key(SECRET, keys["free"])) is not None


async def test_a_crash_before_the_rows_loses_nothing(store: MemoryStore, tmp_path: Path) -> None:
    path, random = tmp_path / "keys.json", counting()
    store.away = True
    with pytest.raises(StoreUnavailable):
        await seed(store, SECRET, path, AT_MS, random)
    keys = keys_in(path)
    store.away = False
    assert await seed(store, SECRET, path, AT_MS, random) == list(LOCAL_TIERS)
    assert keys_in(path) == keys


async def test_a_tier_that_is_missing_is_added(store: MemoryStore, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text('{"free": "mk_mine"}')
    await seed(store, SECRET, path, AT_MS, counting())
    assert keys_in(path)["free"] == "mk_mine"
    assert set(keys_in(path)) == {"free", "paid", "operator"}


async def test_a_revoked_local_key_stays_revoked(store: MemoryStore, tmp_path: Path) -> None:
    path, random = tmp_path / "keys.json", counting()
    await seed(store, SECRET, path, AT_MS, random)
    key_id = (await store.keys())[0].key_id
    await revoke(store, key_id, AT_MS + 1)
    assert await seed(store, SECRET, path, AT_MS + 2, random) == []
    row = next(row for row in await store.keys() if row.key_id == key_id)
    assert row.revoked_at_ms == AT_MS + 1


async def test_a_foreign_file_is_not_overwritten(store: MemoryStore, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text("my notes")
    with pytest.raises(ValueError, match="move it away"):
        await seed(store, SECRET, path, AT_MS, counting())
    assert path.read_text() == "my notes"


async def test_revoking_is_for_good_and_harmless_twice(store: MemoryStore) -> None:
    random = counting()
    row = new_row(new_key(random), SECRET, Tier.FREE, "", AT_MS, random)
    await store.put_key(row)
    first = await revoke(store, row.key_id, AT_MS + 5)
    again = await revoke(store, row.key_id, AT_MS + 9)
    assert first is not None
    assert first == again
    assert first.revoked_at_ms == AT_MS + 5
    assert await revoke(store, "key_unknown", AT_MS) is None
