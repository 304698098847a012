"""Keys: cached for seconds, revoked within them, usable while the store is away."""

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from connectors.store import Key
from connectors.store.keys import hash_key
from connectors.store.memory import MemoryStore
from connectors.store.settings import StoreSettings
from edge.auth import Caller, Keys
from edge.errors import ApiError
from schemas.generated.types import Tier
from tests.edge.client import ANN, BEN
from tests.edge.machines import NOW_MS
from tests.edge.world import SECRET


class Counting(MemoryStore):
    """Counts lookups; `slow` holds them until it is set."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        super().__init__(now_s, StoreSettings())
        self.lookups = 0
        self.slow: asyncio.Event | None = None

    async def key(self, key_hash: bytes) -> Key | None:
        self.lookups += 1
        if self.slow is not None:
            await self.slow.wait()
        return await super().key(key_hash)


class Setting:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.store = Counting(lambda: self.now_s)
        self.keys = Keys(self.store, SECRET, lambda: self.now_s, 10.0, 300.0, 2)

    async def add(self, key: str = ANN, revoked_at_ms: int | None = None) -> None:
        row = Key(
            key_hash=hash_key(SECRET, key),
            key_id="key_1",
            user_id="usr_ann",
            tier=Tier.PAID,
            name="",
            created_at_ms=NOW_MS,
            revoked_at_ms=revoked_at_ms,
        )
        await self.store.put_key(row)

    async def ask(self, key: str = ANN) -> Caller:
        return await self.keys.caller([(b"authorization", f"bearer  {key}".encode())])

    async def refused(self, key: str = ANN) -> str:
        with pytest.raises(ApiError) as caught:
            await self.ask(key)
        return caught.value.code.value


async def test_one_lookup_in_ten_seconds() -> None:
    setting = Setting()
    await setting.add()
    assert await setting.ask() == Caller("usr_ann", Tier.PAID)
    setting.now_s = 9.9
    await setting.ask()
    assert setting.store.lookups == 1
    setting.now_s = 10.0
    await setting.ask()
    assert setting.store.lookups == 2


async def test_a_revoked_key_ends_within_ten_seconds() -> None:
    setting = Setting()
    await setting.add()
    await setting.ask()
    await setting.add(revoked_at_ms=NOW_MS)
    setting.now_s = 10.0
    assert await setting.refused() == "unauthorized"
    setting.store.away = True  # an old yes does not come back
    setting.now_s = 20.0
    assert await setting.refused() == "quota_service_unavailable"


async def test_while_the_store_is_away() -> None:
    setting = Setting()
    await setting.add()
    setting.store.away = True
    assert await setting.refused() == "quota_service_unavailable"
    setting.store.away = False
    await setting.ask()
    setting.store.away = True
    setting.now_s = 299.0
    assert (await setting.ask()).user_id == "usr_ann"
    setting.now_s = 300.0
    assert await setting.refused() == "quota_service_unavailable"


async def test_many_requests_of_one_key_ask_once() -> None:
    setting = Setting()
    await setting.add()
    setting.store.slow = asyncio.Event()
    waiting = [asyncio.create_task(setting.ask()) for _ in range(20)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # whoever asked first may go away
    await asyncio.sleep(0)
    setting.store.slow.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert answers[1:] == [Caller("usr_ann", Tier.PAID)] * 19
    assert setting.store.lookups == 1


async def test_a_store_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge.auth.LOOKUP_S_MAX", 0.05)
    setting = Setting()
    setting.store.slow = asyncio.Event()
    assert await setting.refused() == "quota_service_unavailable"
    setting.store.slow.set()


async def test_guesses_push_nobody_out() -> None:
    setting = Setting()
    await setting.add()
    await setting.ask()
    for number in range(1_200):
        assert await setting.refused(f"mk_{number:032d}") == "unauthorized"
    assert len(setting.keys._unknown) == 1_000
    before = setting.store.lookups
    await setting.ask()
    assert await setting.refused(f"mk_{1_199:032d}") == "unauthorized"
    assert setting.store.lookups == before


async def test_the_cache_is_bounded() -> None:
    setting = Setting()
    for key in (ANN, BEN, "mk_" + "c" * 32):
        await setting.add(key)
        await setting.ask(key)
    assert len(setting.keys._known) == 2
    assert ANN not in str(setting.keys._known)


def test_a_caller_shows_no_key() -> None:
    assert set(msgspec.structs.asdict(Caller("u", Tier.FREE))) == {"user_id", "tier"}
