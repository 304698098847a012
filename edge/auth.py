"""Who asks: from a bearer key to a caller, through a small cache that forgets within seconds.

Owns the cache. Keeps and logs no key, only keyed hashes. An unknown key and a revoked one get the
same answer.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import msgspec

from connectors.errors import StoreUnavailable, Unfit
from connectors.store import Key, Store
from connectors.store.keys import hash_key
from edge.errors import ApiError, ErrorCode
from schemas.generated.types import Tier

_BEARER: Final = re.compile(rb"(?i:bearer) +(mk_[A-Za-z0-9_-]{32})\s*")
_UNKNOWN_KEPT_MAX: Final = 1_000
LOOKUP_S_MAX: Final = 0.4


class Caller(msgspec.Struct, frozen=True):
    """Whom a request belongs to."""

    user_id: str
    tier: Tier


class _Kept(msgspec.Struct, frozen=True):
    caller: Caller | None
    at_s: float


class Keys:
    """Used from one event loop. While the store is away a known key goes on for `stale_s_max`:
    a revocation would have to pass through the same store."""

    def __init__(
        self,
        store: Store,
        secret: bytes,
        now_s: Callable[[], float],
        fresh_s: float,
        stale_s_max: float,
        kept_max: int,
    ) -> None:
        self._store = store
        self._secret = secret
        self._now_s = now_s
        self._fresh_s = fresh_s
        self._stale_s_max = stale_s_max
        self._known: OrderedDict[bytes, _Kept] = OrderedDict()
        self._unknown: OrderedDict[bytes, _Kept] = OrderedDict()
        self._kept_max = kept_max
        self._lookups: dict[bytes, asyncio.Task[Caller | None]] = {}

    async def caller(self, headers: list[tuple[bytes, bytes]]) -> Caller:
        """
        Raises:
            ApiError: unauthorized; quota_service_unavailable where the store does not answer.
        """
        key_hash = self._hash_of(headers)
        kept = self._known.get(key_hash) or self._unknown.get(key_hash)
        if kept is not None and self._now_s() - kept.at_s < self._fresh_s:
            return self._known_or_refused(kept.caller)
        try:
            async with asyncio.timeout(LOOKUP_S_MAX):
                caller = await asyncio.shield(self._lookup(key_hash))
        except (TimeoutError, StoreUnavailable, Unfit):
            stale = self._known.get(key_hash)
            if stale is not None and self._now_s() - stale.at_s < self._stale_s_max:
                return self._known_or_refused(stale.caller)
            raise ApiError(
                ErrorCode.QUOTA_SERVICE_UNAVAILABLE,
                "Keys cannot be checked now; retry the same request with the same key.",
            ) from None
        return self._known_or_refused(caller)

    def _hash_of(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        given = [value for name, value in headers if name == b"authorization"]
        found = _BEARER.fullmatch(given[0]) if len(given) == 1 else None
        if found is None:
            raise ApiError(ErrorCode.UNAUTHORIZED)
        return hash_key(self._secret, found[1].decode("ascii"))

    def _known_or_refused(self, caller: Caller | None) -> Caller:
        if caller is None:
            raise ApiError(ErrorCode.UNAUTHORIZED)
        return caller

    def _lookup(self, key_hash: bytes) -> "asyncio.Task[Caller | None]":
        """One question to the store per key, however many requests wait for it."""
        task = self._lookups.get(key_hash)
        if task is None:
            task = asyncio.create_task(self._ask(key_hash))
            self._lookups[key_hash] = task
            task.add_done_callback(lambda done: self._looked_up(key_hash, done))
        return task

    async def _ask(self, key_hash: bytes) -> Caller | None:
        row = await self._store.key(key_hash)
        caller = _caller(row)
        kept = _Kept(caller, self._now_s())
        # Guessed keys have a small place of their own, so that they push out nobody.
        place, other = (
            (self._unknown, self._known) if caller is None else (self._known, self._unknown)
        )
        other.pop(key_hash, None)
        place[key_hash] = kept
        place.move_to_end(key_hash)
        kept_max = _UNKNOWN_KEPT_MAX if caller is None else self._kept_max
        while len(place) > kept_max:
            place.popitem(last=False)
        return caller

    def _looked_up(self, key_hash: bytes, task: "asyncio.Task[Caller | None]") -> None:
        self._lookups.pop(key_hash, None)
        if not task.cancelled():
            task.exception()  # seen here, whoever has stopped waiting


def _caller(row: Key | None) -> Caller | None:
    if row is None or row.revoked_at_ms is not None:
        return None
    return Caller(row.user_id, row.tier)
