"""What every store must do; run on the twin in memory and on the real one.

A subclass gives `open_store`; each test uses ids of its own, so stores may be shared.
"""

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from connectors.errors import RowTooLarge
from connectors.store import Key, Payload, Result, ResultStatus, RowPhase, Store
from connectors.store.rows import TEXT_BYTES_MAX, fit_text
from schemas.generated.types import Api, Code, FinishReason, Hold, Tier

ADMITTED_AT_MS = 1_796_000_000_000
LONG_TTL_S = 3_600


def result(generation_id: str, **changes: Any) -> Result:
    row = Result(
        generation_id=generation_id,
        user_id="usr_1",
        status=ResultStatus.COMPLETED,
        model="flagship",
        epoch=2,
        text="naïve 🎉",
        code_points=7,
        finish_reason=FinishReason.STOP,
        error_code=None,
        partial=True,
        input_tokens=12,
        cached_input_tokens=3,
        output_tokens=40,
        hold=Hold.CONSUMED,
        terminal_id="2-7",
        admitted_at_ms=ADMITTED_AT_MS,
        ended_at_ms=ADMITTED_AT_MS + 5_000,
    )
    return msgspec.structs.replace(row, **changes)


def workers(generation_id: str, epoch: int, text: str) -> Result:
    """A worker's final row: no end, no terminal."""
    return result(
        generation_id,
        epoch=epoch,
        text=text,
        code_points=len(text),
        status=ResultStatus.PERSISTING,
        terminal_id=None,
        ended_at_ms=None,
    )


class StoreContract:
    """Subclasses are collected, this class is not."""

    async def open_store(self, results_ttl_s: int) -> Store:
        raise NotImplementedError

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = await self.open_store(LONG_TTL_S)
        yield store
        await store.close()

    @pytest.fixture
    def gen(self) -> str:
        return f"gen_{secrets.token_hex(8)}"

    async def test_what_is_not_there_is_none(self, store: Store, gen: str) -> None:
        assert await store.payload(gen) is None
        assert await store.result(gen) is None
        assert await store.key(secrets.token_bytes(16)) is None

    async def test_rows_come_back_as_they_were(self, store: Store, gen: str) -> None:
        payload = Payload(
            generation_id=gen,
            user_id="usr_1",
            runs_key="run_1",
            api=Api.GENERATIONS,
            model="flagship",
            model_version="v@1",
            body='{"messages":[{"role":"user","content":"naïve 🎉\\u0000"}]}'.encode(),
            created_at_ms=ADMITTED_AT_MS,
        )
        await store.put_payload(payload)
        assert await store.payload(gen) == payload
        for row in (
            result(gen),
            result(
                gen,
                epoch=3,
                status=ResultStatus.FAILED,
                error_code=Code.CAPACITY_EXHAUSTED,
                finish_reason=None,
                text="",
                code_points=0,
                partial=False,
                hold=Hold.RELEASED,
            ),
        ):
            await store.put_result(row, RowPhase.FINAL)
            assert await store.result(gen) == row

    async def test_a_body_too_large_is_refused_and_one_put_again_is_replaced(
        self, store: Store, gen: str
    ) -> None:
        body = b"x" * TEXT_BYTES_MAX
        payload = Payload(
            generation_id=gen,
            user_id="usr_1",
            runs_key="run_1",
            api=Api.GENERATIONS,
            model="flagship",
            model_version="v@1",
            body=body,
            created_at_ms=ADMITTED_AT_MS,
        )
        with pytest.raises(RowTooLarge):
            await store.put_payload(msgspec.structs.replace(payload, body=body + b"x"))
        assert await store.payload(gen) is None
        for row in (payload, msgspec.structs.replace(payload, body=b"{}")):
            await store.put_payload(row)
            assert await store.payload(gen) == row

    async def test_a_later_admission_wins_over_any_epoch_of_an_earlier_one(
        self, store: Store, gen: str
    ) -> None:
        later = result(gen, epoch=1, text="later", admitted_at_ms=ADMITTED_AT_MS + 1)
        await store.put_result(later, RowPhase.PLACEHOLDER)
        await store.put_result(result(gen, epoch=100), RowPhase.FINAL)
        assert await store.result(gen) == later

    async def test_keys_are_found_by_hash_listed_and_revoked(self, store: Store) -> None:
        key = Key(
            key_hash=secrets.token_bytes(16),
            key_id=f"key_{secrets.token_hex(8)}",
            user_id="usr_1",
            tier=Tier.PAID,
            name="laptop",
            created_at_ms=5,
        )
        await store.put_key(key)
        assert await store.key(key.key_hash) == key
        revoked = msgspec.structs.replace(key, revoked_at_ms=9)
        await store.put_key(revoked)
        assert await store.key(key.key_hash) == revoked
        assert revoked in await store.keys()

    @pytest.mark.parametrize("order", [*itertools.permutations(range(4))])
    async def test_the_highest_epoch_and_phase_win_in_any_order(
        self, store: Store, gen: str, order: tuple[int, ...]
    ) -> None:
        writes = [
            (workers(gen, 1, "one, partly"), RowPhase.PARTIAL),
            (workers(gen, 1, "one"), RowPhase.FINAL),
            (workers(gen, 2, "two"), RowPhase.PLACEHOLDER),
            (result(gen, epoch=3, text="the end"), RowPhase.FINAL),
        ]
        for at in order:
            await store.put_result(*writes[at])
        assert await store.result(gen) == writes[3][0]

    async def test_a_higher_epoch_leaves_no_column_of_a_lower_one(
        self, store: Store, gen: str
    ) -> None:
        await store.put_result(result(gen, epoch=2), RowPhase.FINAL)
        bare = workers(gen, 3, "")
        bare = msgspec.structs.replace(bare, finish_reason=None, partial=False)
        await store.put_result(bare, RowPhase.PLACEHOLDER)
        assert await store.result(gen) == bare

    async def test_a_late_lower_row_changes_nothing(self, store: Store, gen: str) -> None:
        await store.put_result(result(gen, epoch=2), RowPhase.FINAL)
        await store.put_result(workers(gen, 1, "x" * 100), RowPhase.FINAL)
        assert await store.result(gen) == result(gen, epoch=2)

    async def test_the_same_row_again_is_harmless(self, store: Store, gen: str) -> None:
        for _ in range(3):
            await store.put_result(result(gen), RowPhase.FINAL)
        assert await store.result(gen) == result(gen)

    async def test_a_large_answer_is_kept_whole(self, store: Store, gen: str) -> None:
        row = result(gen, text="wörd " * 200_000)
        await store.put_result(row, RowPhase.FINAL)
        assert await store.result(gen) == row

    async def test_the_largest_row_is_kept_and_a_larger_one_refused(
        self, store: Store, gen: str
    ) -> None:
        largest = result(gen, text=fit_text("é" * TEXT_BYTES_MAX))
        await store.put_result(largest, RowPhase.FINAL)
        assert await store.result(gen) == largest
        over = msgspec.structs.replace(largest, epoch=3, text=largest.text + "é")
        with pytest.raises(RowTooLarge):
            await store.put_result(over, RowPhase.FINAL)
        assert await store.result(gen) == largest

    async def test_results_leave_after_their_time(self, gen: str) -> None:
        store = await self.open_store(1)
        await store.put_result(result(gen), RowPhase.FINAL)
        assert await store.result(gen) is not None
        async with asyncio.timeout(10):
            while await store.result(gen) is not None:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await store.close()

    async def test_an_epoch_out_of_bounds_is_never_written(self, store: Store, gen: str) -> None:
        with pytest.raises(ValueError, match="epoch"):
            await store.put_result(result(gen, epoch=125), RowPhase.FINAL)
        assert await store.result(gen) is None
