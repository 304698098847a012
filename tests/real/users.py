"""Users of a running stack: a key of a user of its own, made at once, since the store is kept open."""

from __future__ import annotations

import os
import time

import msgspec

from connectors.store.cql import CqlStore
from connectors.store.keys import read_secret
from connectors.store.settings import StoreSettings
from ops.cli.keys_book import new_key, new_row
from ops.stack.fresh import FreshStack
from schemas.generated.types import Tier


class User(msgspec.Struct, frozen=True):
    """Somebody with one key."""

    user_id: str
    key: str


class Users:
    """Made by `open`, closed by `close`; used from any loop."""

    def __init__(self, store: CqlStore, secret: bytes) -> None:
        self._store = store
        self._secret = secret

    @classmethod
    async def open(cls, stack: FreshStack) -> Users:
        store = await CqlStore.open(StoreSettings(port=stack.base + 12))
        return cls(store, read_secret(stack.data / "secret"))

    async def close(self) -> None:
        await self._store.close()

    async def new(self, tier: Tier = Tier.PAID) -> User:
        """A user nobody has seen before: nothing used, nothing held."""
        key = new_key(os.urandom)
        at_ms = int(time.time() * 1_000)
        row = new_row(key, self._secret, tier, "test", at_ms, os.urandom)
        await self._store.put_key(row)
        return User(row.user_id, key)
