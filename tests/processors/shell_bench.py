"""A shell under test: its log, its table, a small fold, and what it acknowledged."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import msgspec

from processors import stored
from processors.machine import Event, Machine, Output, Outputs
from processors.outgoing import Outgoing
from processors.shell import Incoming, Sent, Shell
from schemas.generated.types import AccountsInbox, Due, EdgeReply, Limits, Query
from topics import wire
from topics.errors import NotSupported
from topics.partition import partition_of
from topics.registry import ACCOUNTS_INBOX, EDGE_REPLIES


class Counted(msgspec.Struct, frozen=True, array_like=True):
    count: int
    padding: str = ""


class Report(msgspec.Struct):
    timestamp: int
    partition: int = 0
    offset: int = 0


class FakeLog:
    """Keeps every send; the test decides when and whether each is acknowledged."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []
        self.futures: list[asyncio.Future[Sent]] = []
        self.committed_offset: int | None = None
        self.commits = 0
        self.rewound: list[int] = []
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

    async def rewind(self, partition: int) -> None:
        self.rewound.append(partition)
        self.committed_offset = 0

    def of(self, topic: str) -> list[Outgoing]:
        return [record for record in self.sent if record.topic == topic]


def counted(state: Counted | None, event: Event) -> tuple[Counted | None, Outputs]:
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


def refused(event: Event) -> Outputs:
    if not isinstance(event.body, Query):
        return ()
    reply = EdgeReply(event_id="", request_id="over cap", body=Limits(limits=()))
    return (Output(topic=EDGE_REPLIES, key="over cap", value=reply, partition=0),)


MACHINE = Machine(
    name="accounts",
    inbox=ACCOUNTS_INBOX,
    envelope=AccountsInbox,
    state=Counted,
    fold=counted,
    next_deadline=lambda state: 5_000 if state.count == 1 else None,
    over_cap=refused,
)


TOPIC_ID = "first-topic"
PARTITIONS = range(4)


class Bench:
    """A shell with its log and table, and what it acknowledged. `start` takes all partitions over."""

    def __init__(
        self, machine: Machine[Counted] = MACHINE, table: dict[bytes, bytes] | None = None
    ) -> None:
        self.log = FakeLog()
        self.table: dict[bytes, bytes] = {} if table is None else dict(table)
        self.fatal: list[str] = []
        self.acknowledged: list[int] = []
        self.now_s = 0.0
        self.shell: Shell[Counted] = Shell(
            machine,
            self.table,
            self.log,
            self.fatal.append,
            local=True,
            elapsed_s=lambda: self.now_s,
        )

    async def start(self, topic_id: str = TOPIC_ID) -> "Bench":
        """As a process that found this table; what it sent to begin with is not kept."""
        await self.shell.recovered(PARTITIONS, topic_id)
        await self.settle()
        self.log.sent.clear()
        self.log.futures.clear()
        return self

    async def take(
        self,
        offset: int,
        body: Any,
        key: str = "ann",
        append_ms: int = 1_000,
        partition: int | None = None,
    ) -> None:
        value = body if isinstance(body, bytes) else wire.encode(envelope(offset, body))
        if partition is None:
            partition = partition_of(key, len(PARTITIONS))
        record = Incoming(partition, offset, append_ms, key, value)
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


def envelope(offset: int, body: Any) -> AccountsInbox:
    return AccountsInbox(event_id=f"event-{offset}", body=body)


def query(user: str = "ann") -> Query:
    return Query(request_id="req", reply_partition=3, user_id=user)
