"""The store's twin in memory, for tests. Behaves as the contract suite demands of both.

Owns rows, their lives and every fault a test may want; what a fault does to a write, nobody is told.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Final, Generic, TypeVar

import msgspec

from connectors.errors import StoreUnavailable, Unfit
from connectors.store.rows import Key, Payload, Result, RowPhase, check_size, row_timestamp
from connectors.store.settings import StoreSettings
from connectors.store.statements import KEYS_LISTED_MAX

Row = TypeVar("Row", bound=msgspec.Struct)
Value = TypeVar("Value")


class Fate(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one call. One that is not answered fails at the deadline; its outcome is unknown to
    the caller: `applied` says what it was."""

    applied: bool = True
    answered: bool = True
    after_s: float = 0.0
    """Until it is applied; past the deadline it is applied all the same."""


FINE: Final = Fate()


class _Kept(msgspec.Struct, Generic[Row], frozen=True):
    row: Row
    written_at_us: int
    until_s: float


class MemoryStore:
    """`now_s` is any clock that grows; `away` makes every call fail as an absent store does, `unfit`
    as one whose tables are not ours, `fate` is asked by the name of each call what becomes of it.

    What comes late is applied in the context in which the store was made, whoever asked for it."""

    def __init__(self, now_s: Callable[[], float], settings: StoreSettings) -> None:
        self._now_s = now_s
        self._settings = settings
        self._context = copy_context()
        self._payloads: dict[str, _Kept[Payload]] = {}
        self._results: dict[str, _Kept[Result]] = {}
        self._keys: dict[bytes, Key] = {}
        self.away = False
        self.unfit = False
        self.fate: Callable[[str], Fate] = lambda call: FINE

    async def put_payload(self, row: Payload) -> None:
        check_size(row.body)

        def write() -> None:
            until_s = self._now_s() + self._settings.payloads_ttl_s
            self._payloads[row.generation_id] = _Kept(row, 0, until_s)

        await self._ask("put_payload", write)

    async def payload(self, generation_id: str) -> Payload | None:
        return await self._ask("payload", lambda: self.kept_payload(generation_id))

    def kept_payload(self, generation_id: str) -> Payload | None:
        """What a test may look at whatever befalls the store."""
        return self._living(self._payloads.get(generation_id))

    def forget_payload(self, generation_id: str) -> None:
        """As if its write had been lost."""
        del self._payloads[generation_id]

    async def put_result(self, row: Result, phase: RowPhase) -> None:
        check_size(row.text)
        written_at_us = row_timestamp(row.admitted_at_ms, row.epoch, phase)

        def write() -> None:
            there = self._results.get(row.generation_id)
            if there is None or there.written_at_us <= written_at_us:
                until_s = self._now_s() + self._settings.results_ttl_s
                self._results[row.generation_id] = _Kept(row, written_at_us, until_s)

        await self._ask("put_result", write)

    async def result(self, generation_id: str) -> Result | None:
        return await self._ask("result", lambda: self.kept_result(generation_id))

    def kept_result(self, generation_id: str) -> Result | None:
        """What a test may look at whatever befalls the store."""
        return self._living(self._results.get(generation_id))

    async def put_key(self, row: Key) -> None:
        await self._ask("put_key", lambda: self._keys.__setitem__(row.key_hash, row))

    async def key(self, key_hash: bytes) -> Key | None:
        return await self._ask("key", lambda: self._keys.get(key_hash))

    async def keys(self) -> list[Key]:
        return await self._ask("keys", lambda: [*self._keys.values()][:KEYS_LISTED_MAX])

    async def close(self) -> None:
        """Keeps its rows: a test may look at them."""

    async def _ask(self, call: str, apply: Callable[[], Value]) -> Value:
        if self.away:
            raise StoreUnavailable("store away")
        if self.unfit:
            raise Unfit("the store refuses a statement")
        fate = self.fate(call)
        if fate == FINE:
            return apply()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Value] = loop.create_future()

        def reach() -> None:
            value = apply() if fate.applied else None
            if fate.applied and fate.answered and not answer.done():
                answer.set_result(value)  # type: ignore[arg-type]

        loop.call_later(fate.after_s, reach, context=self._context)
        try:
            async with asyncio.timeout(self._settings.deadline_s):
                return await answer
        except TimeoutError:
            raise StoreUnavailable("no answer within the deadline") from None

    def _living(self, kept: _Kept[Row] | None) -> Row | None:
        return None if kept is None or kept.until_s <= self._now_s() else kept.row
