"""The shell's duties, on an in-memory log and table: order, repeats, acknowledgement, bounds.

The laws here are the ones a fold cannot keep by itself; each has a broken twin that must fail.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from processors import stored
from processors.dead_letters import DEAD_LETTERS_MAX
from processors.stored import PENDING_MAX
from schemas.generated.types import AccountsInbox, Archived, Due, Query
from tests.processors.shell_bench import PARTITIONS, TOPIC_ID, Bench, Counted, Report, query
from topics import wire
from topics.registry import ACCOUNTS_INBOX, CHANGELOGS, DEAD_LETTERS, EDGE_REPLIES


async def test_outputs_and_state_record_go_out_and_then_the_event_is_acknowledged() -> None:
    bench = await Bench().start()
    await bench.take(7, query())
    assert bench.acknowledged == []
    await bench.settle()
    assert bench.acknowledged == [7]
    reply, changelog = bench.log.sent
    assert (reply.topic, reply.partition) == (EDGE_REPLIES.name, 3)
    assert changelog.topic == CHANGELOGS["accounts"].name
    assert changelog.value == bench.table[b"ann"]


async def acknowledgements_follow_the_broker(
    acknowledge: Callable[[Bench], Awaitable[None]],
) -> None:
    """The law of F6: nothing is acknowledged before its own sends and those before it are."""
    bench = await Bench().start()
    bench.log.hold = True
    await bench.take(1, query())
    await bench.take(2, query(), key="ben")
    second = bench.log.futures[2:]
    for future in second:
        future.set_result(Report(1_000))
    await acknowledge(bench)
    assert bench.acknowledged == [], "the second event is done, the first is not"
    for future in bench.log.futures[:2]:
        future.set_result(Report(1_000))
    await acknowledge(bench)
    assert bench.acknowledged == [1, 2]


async def test_events_are_acknowledged_in_order_and_only_after_their_sends() -> None:
    bench_task: list[asyncio.Task[None]] = []

    async def keep_acknowledging(bench: Bench) -> None:
        if not bench_task:
            bench_task.append(asyncio.create_task(bench.shell.acknowledge_forever()))
        for _ in range(20):
            await asyncio.sleep(0)

    await acknowledgements_follow_the_broker(keep_acknowledging)
    bench_task[0].cancel()


async def test_the_law_bites_an_offset_before_its_acknowledgement() -> None:
    async def too_early(bench: Bench) -> None:
        while not bench.shell._ahead.empty():
            bench.shell._ahead.get_nowait().acknowledge()

    with pytest.raises(AssertionError, match="the first is not"):
        await acknowledgements_follow_the_broker(too_early)


async def test_a_failed_send_is_fatal_and_acknowledges_nothing() -> None:
    bench = await Bench().start()
    bench.log.hold = True
    await bench.take(1, query())
    bench.log.futures[0].set_exception(OSError("gone"))
    bench.log.futures[1].set_result(Report(1_000))
    await bench.settle()
    assert bench.fatal
    assert bench.acknowledged == []


async def test_a_repeat_at_an_offset_re_emits_the_same_records_and_changes_nothing() -> None:
    bench = await Bench().start()
    await bench.take(1, query())
    first = list(bench.log.sent)
    again = await Bench(table=bench.table).start()  # another process that recovered the same table
    await again.take(1, query(), append_ms=9_999)
    assert again.log.sent == first
    assert again.state() == bench.state()


async def test_recorded_answers_leave_once_committed_and_never_pass_their_bound() -> None:
    bench = await Bench().start()
    acknowledging = asyncio.create_task(bench.shell.acknowledge_forever())
    for offset in range(PENDING_MAX + 1):
        await bench.take(offset, query())
    assert bench.log.commits == 1, "the bound forced a commit"
    bench.log.committed_offset = PENDING_MAX
    await bench.take(PENDING_MAX + 1, query())
    places = [stored.seq_at(1, at) for at in (PENDING_MAX, PENDING_MAX + 1)]
    assert [at for at, _ in bench.state().pending] == places
    acknowledging.cancel()


async def test_time_of_a_key_never_goes_back() -> None:
    bench = await Bench().start()
    await bench.take(1, query(), append_ms=5_000)
    await bench.take(2, query(), append_ms=4_000)
    assert bench.state().now_ms == 5_000


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"not avro", b"not_framed"),
        (b"", b"null_value"),
        (Archived(identity=b"x"), b"not_supported"),
        (Query(request_id="req", reply_partition=16, user_id="ann"), b"bad_partition"),
        (Query(request_id="req", reply_partition=-1, user_id="ann"), b"bad_partition"),
    ],
)
async def test_what_cannot_be_folded_is_dead_lettered_with_its_place(
    body: Any, reason: bytes
) -> None:
    bench = await Bench().start()
    await bench.take(4, body)
    await bench.settle()
    (dead,) = bench.log.sent
    assert dead.topic == DEAD_LETTERS["accounts"].name
    assert dict(dead.headers)["milena-dlq-reason"] == reason
    assert dict(dead.headers)["milena-dlq-offset"] == b"4"
    assert bench.acknowledged == [4]
    assert b"ann" not in bench.table


async def test_too_many_dead_letters_blame_us() -> None:
    bench = await Bench().start()
    for offset in range(DEAD_LETTERS_MAX + 1):
        await bench.take(offset, b"?")
        await bench.settle()
    assert bench.fatal == ["too many dead letters"]


async def test_a_state_over_its_cap_is_refused_and_unchanged() -> None:
    bench = await Bench().start()
    await bench.take(1, query())
    await bench.take(2, query("too large"))
    assert bench.state().state == Counted(1)
    assert bench.log.of(EDGE_REPLIES.name)[-1].key == b"over cap"


async def test_a_passed_deadline_appends_due_to_the_own_inbox_and_a_recovered_table_knows_it() -> (
    None
):
    bench = await Bench().start()
    await bench.take(1, query())
    assert await bench.shell.append_dues(wall_ms=4_999) == 0
    other = await Bench(table=bench.table).start()
    assert await other.shell.append_dues(wall_ms=5_000) == 1
    (due,) = other.log.of(ACCOUNTS_INBOX.name)
    assert wire.decode(AccountsInbox, due.value).body == Due(deadline_at_ms=5_000, live_s=0)
    assert await other.shell.append_dues(wall_ms=5_001) == 0, "re-armed, not repeated at once"
    assert await other.shell.append_dues(wall_ms=6_001) == 1


async def test_an_ended_key_leaves_once_no_restart_can_meet_its_events() -> None:
    bench = await Bench().start()
    await bench.take(1, query())
    await bench.take(2, Due(deadline_at_ms=5_000, live_s=0))
    await bench.shell.forget_ended()
    assert b"ann" in bench.table
    await bench.shell.recovered(PARTITIONS, TOPIC_ID)  # a new owner of the table knows it as well
    bench.log.committed_offset = 3
    await bench.shell.forget_ended()
    assert b"ann" not in bench.table
    assert bench.log.sent[-1].value is None
