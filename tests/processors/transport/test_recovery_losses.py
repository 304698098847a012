"""Recovery on stock and on ours: a predecessor's late record (L6), and records nobody can apply (L7)."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from confluent_kafka import IsolationLevel
from faust.tables.recovery import Recovery as StockRecovery
from faust.types.tuples import ConsumerMessage

from processors import stored
from processors.transport import changelog
from processors.transport.recovery import Recovery
from processors.transport.tenure import EXIT_RESTART
from tests.processors.transport.drivers import CHANGELOG, Bench, Ours, both, nothing, turns


class Record(NamedTuple):
    """One changelog record, with as much of librdkafka's message as recovery reads."""

    k: bytes
    v: bytes | None
    at: int = 0
    told: tuple[tuple[str, bytes], ...] = ()

    def key(self) -> bytes:
        return self.k

    def value(self) -> bytes | None:
        return self.v

    def headers(self) -> Sequence[tuple[str, bytes]]:
        return self.told

    def partition(self) -> int:
        return self.at


def state(seq: int, text: bytes) -> bytes:
    return stored.framed(seq, text)


class Rows:
    """The local table."""

    def __init__(self) -> None:
        self.held: dict[bytes, bytes] = {}

    def keep(self, partitions: Any) -> None:
        """Nothing is held before."""

    def fill(self, partition: int, rows: Mapping[bytes, bytes]) -> None:
        self.held.update(rows)


async def recover(
    bench: Bench, log: Sequence[Record], monkeypatch: pytest.MonkeyPatch
) -> dict[bytes, bytes]:
    """The table after a recovery from this changelog."""
    if isinstance(bench, Ours):
        return await recover_ours(bench, log, monkeypatch)
    return await recover_stock(bench, log)


async def recover_ours(
    bench: Ours, log: Sequence[Record], monkeypatch: pytest.MonkeyPatch
) -> dict[bytes, bytes]:
    def ends(_: Any, places: Sequence[Any], isolation: Any) -> dict[Any, int]:
        assert isolation == IsolationLevel.READ_UNCOMMITTED
        return dict.fromkeys(places, len(log))

    def read(_: Any, topic: str, spans: Any, put: Any, *__: Any) -> None:
        assert spans == {0: (None, len(log))}
        for record in log:
            put(record)

    monkeypatch.setattr(changelog, "ends", ends)
    monkeypatch.setattr(changelog, "read", read)
    rows, recovery = Rows(), Recovery(bench.app)
    bench.app.store, bench.app.recovered, bench.app.put_again = rows, nothing, nothing
    monkeypatch.setattr(bench.consumer, "begin", nothing)
    monkeypatch.setattr(recovery, "_identify", nothing)
    monkeypatch.setattr(recovery, "_resume", nothing)
    await recovery.on_rebalance({type(CHANGELOG)(bench.app.inbox.name, 0)}, 1)
    assert recovery._running is not None
    await asyncio.gather(recovery._running, return_exceptions=True)
    await turns()
    return rows.held


async def recover_stock(bench: Bench, log: Sequence[Record]) -> dict[bytes, bytes]:
    app = bench.app
    table = app.Table("state", key_type=bytes, value_type=bytes, on_changelog_event=refuse_broken)
    recovery = app.tables.recovery
    recovery.active_tps.add(CHANGELOG)
    recovery.tp_to_table[CHANGELOG] = table
    recovery.active_highwaters[CHANGELOG] = len(log) - 1
    recovery.in_recovery = True
    for offset, record in enumerate(log):
        tp = CHANGELOG._replace(partition=record.at)
        message = ConsumerMessage(*tp, offset, 1.0, 1, None, record.k, record.v, None, tp=tp)
        app.tables.changelog_queue.put_nowait(app.create_event(record.k, record.v, None, message))
    task = asyncio.create_task(StockRecovery._slurp_changelogs(recovery))
    await turns(100)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    recovery.flush_buffers()
    return dict(table.data.data)


async def refuse_broken(event: Any) -> None:
    stored.seq_of(event.message.value)


@both("L6: a stopped predecessor's late record takes the state back")
async def test_l6_a_late_record_of_a_predecessor_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = b"ann"
    owner = [Record(key, state(1, b"one")), Record(key, state(2, b"two"))]
    zombie = [Record(key, state(1, b"one"))]  # buffered before it was stopped
    table = await recover(bench, [*owner, *zombie], monkeypatch)
    assert table == {key: state(2, b"two")}


@both("L7: a record that cannot be applied is skipped with a warning")
async def test_l7_a_record_that_cannot_be_applied_ends_the_process(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [Record(b"ann", state(1, b"one")), Record(b"ben", b"broken")]
    table = await recover(bench, log, monkeypatch)
    assert bench.ended == [EXIT_RESTART], f"went on with {sorted(table)}"


@both("L7: a record of a partition that nobody asked for goes into the table of the one before")
async def test_l7_a_record_of_another_partition_is_not_applied(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = [Record(b"ann", state(1, b"one")), Record(b"eve", state(1, b"hers"), at=3)]
    table = await recover(bench, log, monkeypatch)
    assert b"eve" not in table
