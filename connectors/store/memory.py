"""The store's twin in memory, for tests. Behaves as the contract suite demands of both."""

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec

from connectors.errors import StoreUnavailable, Unfit
from connectors.store.rows import Key, Payload, Result, RowPhase, check_size, row_timestamp
from connectors.store.settings import StoreSettings
from connectors.store.statements import KEYS_LISTED_MAX

Row = TypeVar("Row", bound=msgspec.Struct)


class _Kept(msgspec.Struct, Generic[Row], frozen=True):
    row: Row
    written_at_us: int
    until_s: float


class MemoryStore:
    """`now_s` is any clock that grows; `away` makes every call fail as an absent store does, `unfit`
    as one whose tables are not ours."""

    def __init__(self, now_s: Callable[[], float], settings: StoreSettings) -> None:
        self._now_s = now_s
        self._settings = settings
        self._payloads: dict[str, _Kept[Payload]] = {}
        self._results: dict[str, _Kept[Result]] = {}
        self._keys: dict[bytes, Key] = {}
        self.away = False
        self.unfit = False

    async def put_payload(self, row: Payload) -> None:
        check_size(row.body)
        self._answer()
        until_s = self._now_s() + self._settings.payloads_ttl_s
        self._payloads[row.generation_id] = _Kept(row, 0, until_s)

    async def payload(self, generation_id: str) -> Payload | None:
        self._answer()
        return self._living(self._payloads.get(generation_id))

    async def put_result(self, row: Result, phase: RowPhase) -> None:
        check_size(row.text)
        self._answer()
        written_at_us = row_timestamp(row.admitted_at_ms, row.epoch, phase)
        there = self._results.get(row.generation_id)
        if there is None or there.written_at_us <= written_at_us:
            until_s = self._now_s() + self._settings.results_ttl_s
            self._results[row.generation_id] = _Kept(row, written_at_us, until_s)

    async def result(self, generation_id: str) -> Result | None:
        self._answer()
        return self._living(self._results.get(generation_id))

    async def put_key(self, row: Key) -> None:
        self._answer()
        self._keys[row.key_hash] = row

    async def key(self, key_hash: bytes) -> Key | None:
        self._answer()
        return self._keys.get(key_hash)

    async def keys(self) -> list[Key]:
        self._answer()
        return [*self._keys.values()][:KEYS_LISTED_MAX]

    async def close(self) -> None:
        """Keeps its rows: a test may look at them."""

    def _answer(self) -> None:
        if self.away:
            raise StoreUnavailable("store away")
        if self.unfit:
            raise Unfit("the store refuses a statement")

    def _living(self, kept: _Kept[Row] | None) -> Row | None:
        return None if kept is None or kept.until_s <= self._now_s() else kept.row
