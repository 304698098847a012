"""The shell's `Log` and `Table` over Faust's producer, consumer and store. Owns no decision."""

import asyncio
from collections.abc import Awaitable, Collection, Iterator, Mapping, MutableMapping
from typing import Any

from faust.types import TP

from processors.outgoing import Outgoing
from processors.places import changelog_partition
from processors.shell import Sent
from processors.transport.app import App

COMMIT_S_MAX = 10.0


class FaustLog:
    """Sends through Faust's producer directly, so that every append can be awaited."""

    def __init__(self, app: App, inbox: str) -> None:
        self._app = app
        self._inbox = inbox

    async def send(self, record: Outgoing) -> Awaitable[Sent]:
        future: Awaitable[Sent] = await self._app.producer.send(
            record.topic,
            record.key,
            record.value,
            record.partition,
            None,
            record.headers,
        )
        return future

    def committed(self, partition: int) -> int | None:
        return self._app.tenure.offsets.committed_at((self._inbox, partition))

    async def commit(self) -> None:
        commit = self._app.consumer.commit
        async with asyncio.timeout(COMMIT_S_MAX):
            # The first may only have waited for one that began before.
            await commit() or await commit()

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

    def keep(self, partitions: Collection[int]) -> None:
        """Forgets all keys of other partitions."""
        store = self._table.data
        for key in [key for key, at in store._key_partition.items() if at not in partitions]:
            del self[key]

    def fill(self, partition: int, rows: Mapping[bytes, bytes]) -> None:
        """The whole of one partition, whose keys were forgotten before."""
        store = self._table.data
        store.data.update(rows)
        store._key_partition.update(dict.fromkeys(rows, partition))

    def __getitem__(self, key: bytes) -> bytes:
        value: bytes = self._table.data.data[key]
        return value

    def __setitem__(self, key: bytes, value: bytes) -> None:
        store = self._table.data
        if key not in store.data:
            store._key_partition[key] = changelog_partition(key, self._partitions)
        store.data[key] = value

    def __delitem__(self, key: bytes) -> None:
        store = self._table.data
        del store.data[key]
        store._key_partition.pop(key, None)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._table.data.data)

    def __len__(self) -> int:
        return len(self._table.data.data)
