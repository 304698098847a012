"""The shell's duties, on an in-memory log and table: order, repeats, acknowledgement, bounds.

The laws here are the ones a fold cannot keep by itself; each has a broken twin that must fail.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from processors import stored
from processors.machine import Event, Machine, Output, Outputs
from processors.outgoing import Outgoing
from processors.shell import DEAD_LETTERS_MAX, Incoming, Sent, Shell
from processors.stored import PENDING_MAX
from schemas.generated.types import (
    AccountsInbox,
    Archived,
    Due,
    EdgeReply,
    Limits,
    Query,
)
from topics import wire
from topics.errors import NotSupported
from topics.registry import ACCOUNTS_INBOX, CHANGELOGS, DEAD_LETTERS, EDGE_REPLIES


class Counted(msgspec.Struct, frozen=True, array_like=True):
    count: int
    padding: str = ""


class Report(msgspec.Struct):
    timestamp: int


class FakeLog:
    """Keeps every send; the test decides when and whether each is acknowledged."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.futures: list[asyncio.Future[Sent]] = []
        self.committed_offset: int | None = None
        self.commits = 0
        self.hold = False

    async def send(self, record: Outgoing) -> Awaitable[Sent]:
        future: asyncio.Future[Sent] = asyncio.get_running_loop().create_future()
        self.sent.append(record)
        self.futures.append(future)
        if not self.hold:
            future.set_result(Report(1_000))
        return future

    def committed(self, partition: int) -> int | None:
        return self.committed_offset

    async def commit(self) -> None:
        self.commits += 1

    def of(self, topic: str) -> list[Outgoing]:
        return [record for record in self.sent if record.topic == topic]


def _fold(state: Counted | None, event: Event) -> tuple[Counted | None, Outputs]:
    count = state.count if state else 0
    match event.body:
        case Query() as query:
            reply = EdgeReply(event_id="", request_id=query.request_id, body=Limits(limits=()))
            output = Output(
                topic=EDGE_REPLIES,
                key=query.request_id,
                value=reply,
                partition=query.reply_partition,
            )
            padding = "x" * 70_000 if query.user_id == "too large" else ""
            return Counted(count + 1, padding), (output,)
        case Due():
            return None, ()
    raise NotSupported


def _refused(event: Event) -> Outputs:
    if not isinstance(event.body, Query):
        return ()
    reply = EdgeReply(event_id="", request_id="over cap", body=Limits(limits=()))
    return (Output(topic=EDGE_REPLIES, key="over cap", value=reply, partition=0),)


MACHINE = Machine(
    name="accounts",
    inbox=ACCOUNTS_INBOX,
    envelope=AccountsInbox,
    state=Counted,
    fold=_fold,
    next_deadline=lambda state: 5_000 if state.count == 1 else None,
    over_cap=_refused,
)


class Bench:
    """A shell with its log and table, and what it acknowledged."""

    def __init__(self, machine: Machine[Counted] = MACHINE) -> None:
        self.log = FakeLog()
        self.table: dict[bytes, bytes] = {}
        self.fatal: list[str] = []
        self.acknowledged: list[int] = []
        self.shell: Shell[Counted] = Shell(
            machine, self.table, self.log, self.fatal.append, local=True, elapsed_s=lambda: 0.0
        )

    async def take(self, offset: int, body: Any, key: str = "ann", append_ms: int = 1_000) -> None:
        value = body if isinstance(body, bytes) else wire.encode(_envelope(offset, body))
        record = Incoming(0, offset, append_ms, key, value)
        await self.shell.take(record, lambda: self.acknowledged.append(offset))

    async def settle(self) -> None:
        """Runs the acknowledging task until it waits or ends."""
        task = asyncio.create_task(self.shell.acknowledge_forever())
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def state(self, key: str = "ann") -> stored.Stored[Counted]:
        return stored.decode(self.table[key.encode()], Counted)


def _envelope(offset: int, body: Any) -> AccountsInbox:
    return AccountsInbox(event_id=f"event-{offset}", body=body)


def _query(user: str = "ann") -> Query:
    return Query(request_id="req", reply_partition=3, user_id=user)


async def test_outputs_and_state_record_go_out_and_then_the_event_is_acknowledged() -> None:
    bench = Bench()
    await bench.take(7, _query())
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
    bench = Bench()
    bench.log.hold = True
    await bench.take(1, _query())
    await bench.take(2, _query(), key="ben")
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
            _, acknowledge = bench.shell._ahead.get_nowait()
            acknowledge()

    with pytest.raises(AssertionError, match="the first is not"):
        await acknowledgements_follow_the_broker(too_early)


async def test_a_failed_send_is_fatal_and_acknowledges_nothing() -> None:
    bench = Bench()
    bench.log.hold = True
    await bench.take(1, _query())
    bench.log.futures[0].set_exception(OSError("gone"))
    bench.log.futures[1].set_result(Report(1_000))
    await bench.settle()
    assert bench.fatal
    assert bench.acknowledged == []


async def test_a_repeat_at_an_offset_re_emits_the_same_records_and_changes_nothing() -> None:
    bench = Bench()
    await bench.take(1, _query())
    first = list(bench.log.sent)
    again = Bench()
    again.table = bench.table
    again.shell._table = bench.table  # another process that recovered the same table
    await again.take(1, _query(), append_ms=9_999)
    assert again.log.sent == first
    assert again.state() == bench.state()


async def test_recorded_answers_leave_once_committed_and_never_pass_their_bound() -> None:
    bench = Bench()
    acknowledging = asyncio.create_task(bench.shell.acknowledge_forever())
    for offset in range(PENDING_MAX + 1):
        await bench.take(offset, _query())
    assert bench.log.commits == 1, "the bound forced a commit"
    bench.log.committed_offset = PENDING_MAX
    await bench.take(PENDING_MAX + 1, _query())
    assert [at for at, _ in bench.state().pending] == [PENDING_MAX, PENDING_MAX + 1]
    acknowledging.cancel()


async def test_time_of_a_key_never_goes_back() -> None:
    bench = Bench()
    await bench.take(1, _query(), append_ms=5_000)
    await bench.take(2, _query(), append_ms=4_000)
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
    bench = Bench()
    await bench.take(4, body)
    await bench.settle()
    (dead,) = bench.log.sent
    assert dead.topic == DEAD_LETTERS["accounts"].name
    assert dict(dead.headers)["milena-dlq-reason"] == reason
    assert dict(dead.headers)["milena-dlq-offset"] == b"4"
    assert bench.acknowledged == [4]
    assert not bench.table


async def test_too_many_dead_letters_blame_us() -> None:
    bench = Bench()
    for offset in range(DEAD_LETTERS_MAX + 1):
        bench.shell._dead_letter(Incoming(0, offset, 0, "ann", b"?"), "not_framed")
    assert bench.fatal == ["too many dead letters"]


async def test_a_state_over_its_cap_is_refused_and_unchanged() -> None:
    bench = Bench()
    await bench.take(1, _query())
    await bench.take(2, _query("too large"))
    assert bench.state().state == Counted(1)
    assert bench.log.of(EDGE_REPLIES.name)[-1].key == b"over cap"


async def test_a_passed_deadline_appends_due_to_the_own_inbox_and_a_recovered_table_knows_it() -> (
    None
):
    bench = Bench()
    await bench.take(1, _query())
    assert await bench.shell.append_dues(wall_ms=4_999) == 0
    other = Bench()
    other.table.update(bench.table)
    other.shell.recovered()
    assert await other.shell.append_dues(wall_ms=5_000) == 1
    (due,) = other.log.of(ACCOUNTS_INBOX.name)
    assert wire.decode(AccountsInbox, due.value).body == Due(deadline_at_ms=5_000, live_s=0)
    assert await other.shell.append_dues(wall_ms=5_001) == 0, "re-armed, not repeated at once"
    assert await other.shell.append_dues(wall_ms=6_001) == 1


async def test_an_ended_key_leaves_once_no_restart_can_meet_its_events() -> None:
    bench = Bench()
    await bench.take(1, _query())
    await bench.take(2, Due(deadline_at_ms=5_000, live_s=0))
    await bench.shell.forget_ended()
    assert b"ann" in bench.table
    bench.shell.recovered()  # a new owner of the table knows it as well
    bench.log.committed_offset = 3
    await bench.shell.forget_ended()
    assert b"ann" not in bench.table
    assert bench.log.sent[-1].value is None
