"""The shell's `Log` and `Table` over Faust's producer, consumer and store. Owns no decision."""

import asyncio
from collections.abc import Awaitable, Iterator, MutableMapping
from typing import Any

import faust
from faust.types import TP

from processors.outgoing import Outgoing
from processors.shell import Sent
from topics.partition import partition_of

COMMIT_S_MAX = 10.0


class FaustLog:
    """Sends through Faust's producer directly, so that every append can be awaited."""

    def __init__(self, app: faust.App, inbox: str) -> None:
        self._app = app
        self._inbox = inbox

    async def send(self, record: Outgoing) -> Awaitable[Sent]:
        future: Awaitable[Sent] = await self._app.producer.send(
            record.topic,
            record.key,
            record.value,
            record.partition,
            None,
            list(record.headers) or None,
        )
        return future

    def committed(self, partition: int) -> int | None:
        offset: int | None = self._app.consumer._committed_offset.get(TP(self._inbox, partition))
        return offset

    async def commit(self) -> None:
        await asyncio.wait_for(self._app.consumer.commit(), COMMIT_S_MAX)

    async def rewind(self, partition: int) -> None:
        inbox = TP(self._inbox, partition)
        async with asyncio.timeout(COMMIT_S_MAX):
            start = await self._app.consumer.earliest_offsets(inbox)
            await self._app.consumer._commit({inbox: start[inbox]})


class FaustTable(MutableMapping[bytes, bytes]):
    """A Faust table's local store, written without Faust's changelog buffer: the shell sends it.

    The store is reached late because Faust makes it on the running loop.
    """

    def __init__(self, table: Any, partitions: int) -> None:
        self._table = table
        self._partitions = partitions

    def __getitem__(self, key: bytes) -> bytes:
        value: bytes = self._table.data.data[key]
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        store = self._table.data
        store.data[key] = value
        # Faust drops a partition's keys by this map once the partition is given up.
        store._key_partition[key] = partition_of(key.decode(), self._partitions)

    def __delitem__(self, key: bytes) -> None:
        store = self._table.data
        del store.data[key]
        store._key_partition.pop(key, None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._table.data.data)

    def __len__(self) -> int:
        return len(self._table.data.data)
