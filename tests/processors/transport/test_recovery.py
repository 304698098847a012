"""What a recovery reads, keeps and forgets over assignments, and in which order it lets work begin."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from faust.types import TP

from processors.transport import changelog
from processors.transport.recovery import Recovery
from processors.transport.tenure import EXIT_REFUSED
from tests.processors.transport.drivers import Make, Ours, turns
from tests.processors.transport.test_recovery_losses import Record, state
from topics.errors import PastUnknown


@pytest.fixture
def make() -> Make:
    return Ours


class World:
    """Everything a recovery touches, noted in order."""

    def __init__(self, bench: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
        self.journal: list[str] = []
        self.recovery = Recovery(bench.app)
        self.past: Exception | None = None
        self.log: list[Record] = []
        self._inbox = bench.app.inbox.name
        bench.app.store, bench.app.recovered = self, self.recovered
        bench.app.put_again = self._put_again
        monkeypatch.setattr(changelog, "ends", self._ends)
        monkeypatch.setattr(changelog, "read", self._read)
        monkeypatch.setattr(bench.consumer, "begin", self._begin)
        monkeypatch.setattr(self.recovery, "_identify", self._identify)
        monkeypatch.setattr(self.recovery, "_resume", self._resume)

    async def assign(self, generation: int, *partitions: int) -> list[str]:
        """What one assignment did."""
        self.journal.clear()
        await self.recovery.on_rebalance({TP(self._inbox, one) for one in partitions}, generation)
        assert self.recovery._running is not None
        await asyncio.gather(self.recovery._running, return_exceptions=True)
        await turns()
        return [*self.journal]

    def keep(self, partitions: Collection[int]) -> None:
        self.journal.append(f"keep {sorted(partitions)}")

    def fill(self, partition: int, rows: Mapping[bytes, bytes]) -> None:
        self.journal.append(f"fill {partition}")

    async def recovered(self, partitions: Collection[int], topic_id: str) -> None:
        self.journal.append(f"shell {sorted(partitions)}")
        if self.past is not None:
            raise self.past

    def _ends(self, _: Any, places: Any, __: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 9)

    def _read(self, _: Any, __: Any, spans: Mapping[int, Any], put: Any, *___: Any) -> None:
        self.journal.append(f"read {sorted(spans)}")
        for record in self.log:
            put(record)

    async def _put_again(self, partition: int, keys: Sequence[tuple[bytes, int]]) -> None:
        self.journal.append(f"put again {partition} {keys}")

    async def _begin(self) -> None:
        self.journal.append("committed")

    async def _identify(self) -> None:
        self.journal.append("topic id")

    async def _resume(self, generation: int) -> None:
        self.journal.append("flow")


@pytest.fixture
def world(bench: Ours, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(bench, monkeypatch)


async def test_records_flow_only_after_all_is_known(world: World) -> None:
    done = await world.assign(1, 0, 1)
    assert done == [
        *("keep []", "read [0, 1]", "fill 0", "fill 1"),
        *("committed", "topic id", "shell [0, 1]", "flow"),
    ]


async def test_only_what_is_new_is_read_and_what_is_gone_is_forgotten(world: World) -> None:
    await world.assign(1, 0, 1)
    done = await world.assign(2, 1, 2)
    assert done[:3] == ["keep [1]", "read [2]", "fill 2"]


async def test_after_a_generation_without_us_everything_is_read_again(world: World) -> None:
    await world.assign(1, 0, 1)
    done = await world.assign(3, 0, 1)
    assert done[:2] == ["keep []", "read [0, 1]"]


async def test_a_late_record_met_in_recovery_is_put_over_before_the_first_fold(
    world: World,
) -> None:
    """Compaction knows no seq: it would keep the last record, and the next recovery would find that."""
    world.log = [
        *(Record(b"ann", state(2, b"two")), Record(b"ann", state(1, b"one"))),
        *(Record(b"ben", state(1, b"one")), Record(b"ben", state(2, b"two"))),
    ]
    done = await world.assign(1, 0)
    assert done[-3:] == ["shell [0]", "put again 0 [(b'ann', 1)]", "flow"]


async def test_another_assignment_ends_a_recovery_that_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def never() -> None:
        asked.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(world.recovery, "_identify", never)
        await world.recovery.on_rebalance({TP(world._inbox, 0)}, 1)
        await asked.wait()
    before = world.recovery._running
    done = await world.assign(2, 0)
    assert before is not None
    assert before.cancelled()
    assert done[-1] == "flow"


async def test_a_past_that_is_not_ours_ends_the_process(bench: Ours, world: World) -> None:
    world.past = PastUnknown("re-created")
    done = await world.assign(1, 0)
    assert "flow" not in done
    assert bench.ended == [EXIT_REFUSED]
