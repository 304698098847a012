"""The accounts fold on stock Faust, as its guide would have it: what the benchmark compares with.

`python -m ops.bench.stock_faust <bootstrap> <states file> <data folder>`: one agent, one table in memory,
at-least-once with stock acknowledgements and stock producer buffer. Not durable where Milena is; never
serves anything.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from processors.admission.state import Account
from processors.machine import Event, stamp
from processors.machines import MACHINES
from processors.outgoing import outgoing
from processors.places import changelog_partition
from schemas.generated.types import AccountsInbox
from topics import wire
from topics.registry import ACCOUNTS_INBOX

APP = "bench-stock"
READY = "folding"


async def _run(bootstrap: str, states: Path, folder: Path) -> None:
    import faust  # after the loop's policy is set

    machine = MACHINES["accounts"](os.environ)
    app = faust.App(
        APP,
        broker=f"kafka://{bootstrap}",
        store="memory://",
        datadir=str(folder),
        autodiscover=False,
        web_enabled=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        key_serializer="raw",
        value_serializer="raw",
        stream_wait_empty=False,
        stream_buffer_maxsize=512,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
        producer_linger=0,
    )
    inbox = app.topic(ACCOUNTS_INBOX.name, key_type=bytes, value_type=bytes)
    partitions = ACCOUNTS_INBOX.ring.partitions(local=True)
    table = app.Table("state", key_type=bytes, value_type=bytes, partitions=partitions)
    topics: dict[str, Any] = {}
    kept = msgspec.msgpack.decode(states.read_bytes(), type=dict[bytes, bytes])  # noqa: ASYNC240

    @table.on_recover  # type: ignore[untyped-decorator]
    async def _whole() -> None:
        for key, value in kept.items():
            table.data.data[key] = value
            table.data._key_partition[key] = changelog_partition(key, partitions)
        print(READY, flush=True)  # noqa: T201

    @app.agent(inbox, concurrency=1)  # type: ignore[untyped-decorator]
    async def fold(stream: Any) -> None:
        async for event in stream.events():
            told = wire.decode(AccountsInbox, event.value)
            raw = table.get(event.key)
            state = msgspec.msgpack.decode(raw, type=Account) if raw else None
            happened = Event(
                event_id=told.event_id,
                key=event.key.decode(),
                append_ms=round(event.message.timestamp * 1_000),
                body=told.body,
            )
            after, outputs = machine.fold(state, happened)
            for output in stamp(outputs, told.event_id):
                record = outgoing(output, local=True)
                topic = topics.setdefault(record.topic, app.topic(record.topic, value_type=bytes))
                await topic.send(key=record.key, value=record.value, partition=record.partition)
            table[event.key] = msgspec.msgpack.encode(after)

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    app.finalize()
    await app.start()
    await stop.wait()
    os._exit(0)


def main() -> None:
    bootstrap, states, folder = sys.argv[1:]
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    asyncio.run(_run(bootstrap, Path(states), Path(folder)))


if __name__ == "__main__":
    main()
