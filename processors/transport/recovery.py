"""The table's recovery, in place of Faust's: what an assignment must know before its first fold.

Owns the order: read the changelog of what is newly held, choose, forget what was given up, learn the
committed offsets, let the shell look at its past, and only then let records flow. The store is memory and
is filled from the log alone, so nothing that an unclean stop left behind can be believed. Every error ends
the process; stock Faust logs it and goes on without the record.
"""

import asyncio
import threading
import time
from typing import Any, Final

import structlog
from confluent_kafka import IsolationLevel, Message
from faust.tables.manager import TableManager
from faust.types import TP
from mode import Service

from processors.stored import SEQ_HEADER, seq_of
from processors.transport import changelog
from processors.transport.rebuild import Rebuild
from processors.transport.tenure import EXIT_REFUSED, EXIT_RESTART
from topics import topology
from topics.errors import PastUnknown

RECOVERY_S_MAX: Final = 90.0
_log = structlog.get_logger()


def seq_in(message: Message) -> int | None:
    """The seq of a changelog record; None for one that forgets its key and tells none."""
    value = message.value()
    if value is not None:
        return seq_of(value)
    told = dict(message.headers() or ()).get(SEQ_HEADER)
    return None if told is None else int(told)


class Recovery(Service):  # type: ignore[misc]
    """Fills the table for each assignment. A new one ends the recovery of the one before."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.app = app
        self.completed = asyncio.Event()
        self._whole: set[int] = set()
        """Partitions whose keys the table holds."""
        self._generation = -1
        self._running: asyncio.Task[None] | None = None
        self._stop = threading.Event()

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        self._give_up()

    async def on_rebalance(self, assigned: set[TP], generation: int) -> None:
        """Begins to recover what is held now."""
        self._give_up()
        inbox = self.app.inbox
        partitions = {tp.partition for tp in assigned if tp.topic == inbox.name}
        if generation not in (self._generation, self._generation + 1):
            # A generation passed without us: others may have written what the table holds.
            self._whole.clear()
        self._generation = generation
        self._stop = threading.Event()
        self._running = asyncio.create_task(self._recover(partitions, generation, self._stop))
        self._running.add_done_callback(self._ended)

    async def on_stop(self) -> None:
        self._give_up()

    def _give_up(self) -> None:
        self._stop.set()
        if self._running is not None:
            self._running.cancel()
            self._running = None

    async def _recover(self, partitions: set[int], generation: int, stop: threading.Event) -> None:
        began_s = time.monotonic()
        async with asyncio.timeout(RECOVERY_S_MAX):
            late = await self._fill(partitions, began_s + RECOVERY_S_MAX, stop)
            await self.app.consumer.begin()
            await self._identify()
            await self.app.recovered(partitions, self.app.tenure.topic_id)
            for partition, keys in late.items():
                await self.app.put_again(partition, keys)
            await self._resume(generation)
        took_s = time.monotonic() - began_s
        self.app.metrics.recovery_seconds.set(took_s)
        _log.info("recovered", partitions=len(partitions), seconds=round(took_s, 3))

    def _ended(self, recovery: "asyncio.Task[None]") -> None:
        error = None if recovery.cancelled() else recovery.exception()
        if isinstance(error, PastUnknown):
            self.app.tenure.end(str(error), EXIT_REFUSED)
        elif error is not None:
            self.app.tenure.end(f"recovery failed: {type(error).__name__}: {error}", EXIT_RESTART)

    async def _fill(
        self, partitions: set[int], deadline_s: float, stop: threading.Event
    ) -> dict[int, list[tuple[bytes, int]]]:
        """Makes the table that of these partitions; returns the keys whose last record is a late one."""
        tenure, log = self.app.tenure, self.app.changelog
        self._whole &= partitions
        self.app.store.keep(self._whole)
        tenure.strangers.keep(self._whole)
        missing = partitions - self._whole
        admin = changelog.client(self.app.bootstrap)
        ends = await asyncio.to_thread(
            changelog.ends, admin, [(log, one) for one in missing], IsolationLevel.READ_UNCOMMITTED
        )
        spans = {one: (None, end) for (_, one), end in ends.items()}
        tables = {one: Rebuild() for one in spans}

        def put(message: Message) -> None:
            tables[message.partition()].put(message.key(), message.value(), seq_in(message))

        await asyncio.to_thread(
            changelog.read, self.app.bootstrap, log, spans, put, deadline_s, stop
        )
        for partition, (_, end) in spans.items():
            self.app.store.fill(partition, tables[partition].table())
            tenure.strangers.begin(partition, end)
            self._whole.add(partition)
        return {one: table.late() for one, table in tables.items() if table.late()}

    async def _identify(self) -> None:
        tenure, inbox = self.app.tenure, self.app.inbox
        found = await asyncio.to_thread(topology.topic_id, self.app.bootstrap, inbox)
        if tenure.topic_id not in ("", found):
            raise PastUnknown(f"{inbox.name} was re-created while it was folded")
        tenure.topic_id = found

    async def _resume(self, generation: int) -> None:
        app, consumer = self.app, self.app.consumer
        await app.on_rebalance_complete.send()
        if app.consumer_generation_id != generation:
            return  # the next assignment is on its way here
        consumer.resume_partitions(
            {tp for tp in consumer.assignment() if tp.topic == app.inbox.name}
        )
        self.completed.set()
        app.flow_control.resume()
        consumer.resume_flow()
        await app._fetcher.maybe_start()
        app.tables.on_actives_ready()
        app.tables.on_standbys_ready()
        app.on_rebalance_end()
        app.tenure.gate.open()


class Tables(TableManager):  # type: ignore[misc]
    """Faust's register of tables, whose changelogs the group does not subscribe to: Recovery reads them."""

    def __init__(self, app: Any, **kwargs: Any) -> None:
        super().__init__(app, **kwargs)
        self._own: Recovery | None = None

    @property
    def recovery(self) -> Recovery:
        if self._own is None:
            self._own = Recovery(self.app, beacon=self.beacon, loop=self.loop)
        return self._own

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()

    async def on_stop(self) -> None:
        await self.app._fetcher.stop()
        await self.recovery.stop()
        for table in self.values():
            await table.stop()

    async def _update_channels(self) -> None:
        self._tables_finalized.set()
        for table in self.values():
            await table.maybe_start()
        self._tables_registered.set()

    async def on_rebalance(
        self,
        assigned: set[TP],
        revoked: set[TP],
        newly_assigned: set[TP],
        generation_id: int = 0,
    ) -> None:
        self._recovery_started.set()
        await self.recovery.on_rebalance(assigned, generation_id)
