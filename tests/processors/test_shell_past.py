"""What a shell makes of a past: another topic under the same name, other rules, a stranger's records,
a log that was away, a clock that is wrong.
"""

import asyncio

import msgspec
import pytest

from processors import marks, stored
from processors.decide import OWN_KEY
from processors.liveness import BREAK_S, Liveness
from processors.machine import Event, Outputs
from processors.stored import SEQ_HEADER, seq_at
from schemas.generated.types import AccountsInbox, Due, Upgraded
from tests.processors.shell_bench import (
    MACHINE,
    PARTITIONS,
    TOPIC_ID,
    Bench,
    Counted,
    counted,
    query,
)
from topics import wire
from topics.errors import PastUnknown
from topics.partition import partition_of
from topics.registry import ACCOUNTS_INBOX, CHANGELOGS, DEAD_LETTERS

ANN = partition_of("ann", len(PARTITIONS))


def twice(state: Counted | None, event: Event) -> tuple[Counted | None, Outputs]:
    """Version 2: counts by two."""
    after, outputs = counted(state, event)
    return (None if after is None else Counted(after.count + 1)), outputs


NEWER = msgspec.structs.replace(MACHINE, fold=twice, rules=2, earlier={1: counted})


async def test_a_first_start_marks_every_partition_before_anything_is_folded() -> None:
    bench = Bench()
    await bench.shell.recovered(PARTITIONS, TOPIC_ID)
    assert [record.key for record in bench.log.of(CHANGELOGS["accounts"].name)] == [
        marks.key_of(partition) for partition in PARTITIONS
    ]
    assert await bench.start() is bench
    assert not bench.log.sent, "a marked table is not marked again"


async def test_a_re_created_inbox_stops_the_machine_and_names_the_way_on() -> None:
    bench = await Bench().start()
    await bench.take(7, query())
    with pytest.raises(PastUnknown, match="milena topics adopt accounts"):
        await Bench(table=bench.table).start("another-topic")


async def test_after_adoption_offsets_count_anew_and_nothing_is_taken_for_a_repeat() -> None:
    bench = await Bench().start()
    await bench.take(7, query())
    for partition in PARTITIONS:
        mark = marks.decode(bench.table[marks.key_of(partition)])
        adopted = marks.adopted(mark, "another-topic")
        bench.table[marks.key_of(partition)] = marks.encode(adopted)
        assert stored.seq_of(marks.encode(adopted)) > stored.seq_of(marks.encode(mark))
    after = Bench(table=bench.table)
    after.log.committed_offset = 8  # left by the topic that is gone
    await after.start("another-topic")
    assert after.log.rewound == [*PARTITIONS]
    await after.take(0, query())
    assert after.state().state == Counted(2)
    assert after.state().seq == seq_at(2, 0) > bench.state().seq
    await after.take(0, query())
    assert after.state().state == Counted(2), "a repeat in the new life is one"


async def test_a_lost_changelog_stops_the_machine_where_events_were_committed() -> None:
    bench = Bench()
    bench.log.committed_offset = 12
    with pytest.raises(PastUnknown, match="milena topics refold accounts"):
        await bench.start()


async def test_a_refold_begins_at_the_start_once_and_ends_with_the_same_state() -> None:
    bench = await Bench().start()
    for offset in range(3):
        await bench.take(offset, query())
    lost = Bench()
    for partition in PARTITIONS:
        told = marks.refolded(None, TOPIC_ID, rules=1)
        lost.table[marks.key_of(partition)] = marks.encode(told)
    lost.log.committed_offset = 3
    await lost.start()
    assert lost.log.rewound == [*PARTITIONS]
    for offset in range(3):
        await lost.take(offset, query())
    assert lost.state().state == bench.state().state
    assert lost.log.sent == bench.log.sent, "the same outputs, for consumers to drop"
    again = await Bench(table=lost.table).start()
    assert not again.log.rewound


async def test_new_rules_hold_from_their_record_on_also_after_a_restart() -> None:
    old = await Bench().start()
    await old.take(1, query())
    new = Bench(NEWER, old.table)
    await new.shell.recovered(PARTITIONS, TOPIC_ID)
    asked = new.log.of(ACCOUNTS_INBOX.name)
    assert [record.partition for record in asked] == list(PARTITIONS)
    assert wire.decode(AccountsInbox, asked[0].value).body == Upgraded(rules=2)
    await new.take(2, query())
    assert new.state().state == Counted(2), "not yet in force"
    await new.take(3, Upgraded(rules=2), OWN_KEY, partition=ANN)
    await new.take(4, query())
    assert new.state().state == Counted(4)
    again = await Bench(NEWER, new.table).start()
    assert not again.log.of(ACCOUNTS_INBOX.name)
    await again.take(3, Upgraded(rules=2), OWN_KEY, partition=ANN)
    await again.take(2, query(), key="bob")
    assert again.state("bob").state == Counted(1), "an event before the record keeps the old rules"
    await again.take(5, query(), key="bob")
    assert again.state("bob").state == Counted(3)
    assert (again.state("bob").rules, again.state().rules) == (2, 2)


async def test_an_older_version_neither_starts_under_new_rules_nor_folds_past_them() -> None:
    running = await Bench().start()
    await running.take(1, Upgraded(rules=2), OWN_KEY, partition=ANN)
    assert running.fatal == ["rules 2 are in force, 1 are the last known"]
    new = await Bench(NEWER).start()
    await new.take(1, Upgraded(rules=2), OWN_KEY, partition=ANN)
    older = msgspec.structs.replace(NEWER, rules=1, fold=counted, earlier={})
    with pytest.raises(PastUnknown, match="start a later version"):
        await Bench(older, new.table).start()


async def test_a_strangers_older_record_is_answered_with_ours() -> None:
    bench = await Bench().start()
    await bench.take(4, query())
    await bench.shell.put_again(ANN, [(b"ann", seq_at(1, 3))])
    assert bench.log.sent[-1].value == bench.table[b"ann"]
    before = len(bench.log.sent)
    await bench.shell.put_again(ANN, [(b"ann", seq_at(1, 4))])
    assert len(bench.log.sent) == before, "the same event folded by two is the same state"
    assert not bench.fatal


async def test_a_strangers_record_of_a_key_that_left_is_deleted_again() -> None:
    bench = await Bench().start()
    await bench.take(4, query())
    await bench.shell.put_again(ANN, [(b"bob", seq_at(1, 2))])
    last = bench.log.sent[-1]
    assert (last.key, last.value) == (b"bob", None)
    assert dict(last.headers)[SEQ_HEADER] == str(seq_at(1, 2)).encode()


@pytest.mark.parametrize("key", [b"ann", b"bob"])
async def test_a_strangers_newer_record_means_that_the_zombie_is_us(key: bytes) -> None:
    bench = await Bench().start()
    await bench.take(4, query())
    before = len(bench.log.sent)
    await bench.shell.put_again(ANN, [(key, seq_at(1, 6))])
    assert len(bench.log.sent) == before
    assert bench.fatal == [f"a successor writes the changelog of partition {ANN}"]


async def test_a_record_from_a_clock_far_ahead_ends_the_process_and_a_backlog_does_not() -> None:
    bench = await Bench().start()
    await bench.take(1, query())
    await bench.settle()  # the broker says 1,000 ms
    await bench.take(2, query(), append_ms=0)
    await bench.take(3, query(), append_ms=61_000)
    assert not bench.fatal
    await bench.take(4, query(), append_ms=61_001)
    assert bench.fatal == ["append time 60001 ms ahead of broker time"]


async def test_a_machine_that_judges_silence_keeps_watch_over_its_log() -> None:
    bench = await Bench(msgspec.structs.replace(MACHINE, judges_silence=True)).start()
    acknowledging = asyncio.create_task(bench.shell.acknowledge_forever())
    await bench.take(1, query())
    for second in range(1, 13):
        bench.now_s = float(second)
        await bench.shell.append_dues(wall_ms=0)
        await asyncio.sleep(0)
    await bench.shell.drain()
    dues = [
        (record.key.decode(), wire.decode(AccountsInbox, record.value).body)
        for record in bench.log.of(ACCOUNTS_INBOX.name)
    ]
    assert [key for key, _ in dues].count(OWN_KEY) == 12 * len(PARTITIONS)
    told = [due.live_s for key, due in dues if key == "ann" and isinstance(due, Due)]
    assert told[-1] >= 8, "seconds of acknowledged beats"
    acknowledging.cancel()


async def test_a_beat_is_acknowledged_and_leaves_no_state() -> None:
    bench = await Bench().start()
    await bench.take(1, Due(deadline_at_ms=0, live_s=3), OWN_KEY, partition=ANN)
    await bench.take(2, query(), OWN_KEY, partition=ANN)
    await bench.settle()
    assert bench.acknowledged == [1, 2]
    assert OWN_KEY.encode() not in bench.table
    (dead,) = bench.log.sent
    assert dead.topic == DEAD_LETTERS["accounts"].name
    assert dict(dead.headers)["milena-dlq-reason"] == b"reserved_key"


async def test_a_record_in_a_partition_that_is_not_its_keys_is_dead_lettered() -> None:
    bench = await Bench().start()
    await bench.take(1, query(), partition=(ANN + 1) % len(PARTITIONS))
    assert dict(bench.log.sent[0].headers)["milena-dlq-reason"] == b"wrong_partition"


def test_live_seconds_count_only_without_a_break() -> None:
    live = Liveness()
    assert live.live_s(5.0) == 0, "nothing was ever acknowledged"
    for second in range(11):
        live.acknowledged(second - 0.1, float(second))
    assert live.live_s(10.5) == 10
    assert live.live_s(10.0 + BREAK_S + 0.1) == 0, "no word for too long"
    live.acknowledged(16.9, 17.0)
    assert live.live_s(18.0) == 1, "counting began anew"
    live.acknowledged(17.5, 21.0)
    assert live.live_s(21.0) == 0, "an acknowledgement that took too long is a break as well"
