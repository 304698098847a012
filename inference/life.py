"""One incarnation of this worker: its name in the log, its lease, its orders.

Owns the control partition, the heartbeats and what their silence means. A lapsed life goes on
until its answers have ended, but claims nothing more: for the workers machine it may be dead, and
the worker begins another one. It never touches an engine or a stream.
"""

from collections.abc import Callable

import structlog

from connectors.log import Record
from inference import metrics
from inference.lease import Lease, LeaseState
from inference.log import Log, Outgoing, Reader
from schemas.generated.types import (
    Heartbeat,
    Left,
    OwnedEpoch,
    WorkerControl,
    WorkersInbox,
)
from topics import wire
from topics.errors import InvalidRecord
from topics.partition import partition_of
from topics.registry import CONTROL_WORKERS, WORKERS_INBOX

_log = structlog.get_logger()


class Life:
    """Made by `begin`. Times are seconds of `elapsed_s`.

    `owned` is asked at each beat; `ordered` gets each order of this incarnation; `worse` is told
    when the lease gets into doubt, before anything else can act on it.
    """

    def __init__(
        self,
        incarnation: str,
        pool: str,
        slots: int,
        heartbeat_s: float,
        outgoing: Outgoing,
        clock: Callable[[], float],
        owned: Callable[["Life"], tuple[OwnedEpoch, ...]],
        ordered: Callable[["Life", WorkerControl], None],
        worse: Callable[["Life", LeaseState], None],
    ) -> None:
        self.incarnation = incarnation
        self._pool = pool
        self._slots = slots
        self._heartbeat_s = heartbeat_s
        self._outgoing = outgoing
        self._clock = clock
        self._owned = owned
        self._ordered = ordered
        self._worse = worse
        self._reader: Reader | None = None
        self._lease: Lease | None = None
        self._told = LeaseState.SUSPENDED  # until the first heartbeat is acknowledged
        self._beat = 0
        self._beat_due_s = 0.0
        self.lapsed_at_s: float | None = None

    @property
    def live(self) -> bool:
        """True where this incarnation may write and ask."""
        return self._told is LeaseState.LIVE

    @property
    def claims(self) -> bool:
        """True where this incarnation may claim."""
        return self.live and self.lapsed_at_s is None

    @property
    def failed(self) -> str | None:
        """Why its orders can never be read again."""
        return None if self._reader is None else self._reader.failed

    async def listen(self, log: Log) -> None:
        """Fixes the place in its control partition; before that no order may be caused.

        Raises:
            TimeoutError: the broker does not answer.
        """
        partition = partition_of(self.incarnation, log.partitions(CONTROL_WORKERS))
        self._reader = log.assigned(CONTROL_WORKERS, partition, self._deliver)
        await self._reader.ready()

    def check(self, now_s: float) -> None:
        """Looks at the clock; everybody who is about to write does so first."""
        if self._lease is None:
            return
        worst = self._lease.take_worst(now_s)
        if worst > self._told:
            _log.warning("lease in doubt", incarnation=self.incarnation, state=worst.name.lower())
            self._told = worst
            if worst is LeaseState.LAPSED and self.lapsed_at_s is None:
                self.lapsed_at_s = now_s
            self._worse(self, worst)
        if self._told is not LeaseState.LIVE and self._lease.state(now_s) is LeaseState.LIVE:
            self._told = LeaseState.LIVE

    def tick(self, now_s: float) -> None:
        """Sends the heartbeat that is due. A silent log does not hold back the next one."""
        self.check(now_s)
        if self._lease is not None:
            metrics.HEARTBEAT_AGE.set(self._lease.age_s(now_s))
        if now_s < self._beat_due_s:
            return
        self._beat_due_s = now_s + self._heartbeat_s
        self._beat += 1
        beat = Heartbeat(
            pool=self._pool, beat=self._beat, owned=self._owned(self), slots=self._slots
        )
        self._outgoing.tell(
            WORKERS_INBOX,
            self.incarnation,
            WorkersInbox(event_id=self._outgoing.mint.event_id(), body=beat),
            lambda: self._acknowledged(now_s),
        )

    async def leave(self, tell: bool) -> None:
        """Stops listening; `tell` says goodbye first, so that nobody waits for the lease."""
        if tell:
            left = WorkersInbox(event_id=self._outgoing.mint.event_id(), body=Left(beat=self._beat))
            await self._outgoing.ensure(WORKERS_INBOX, self.incarnation, left)
        if self._reader is not None:
            await self._reader.close()

    def _acknowledged(self, sent_s: float) -> None:
        now_s = self._clock()
        if self._lease is None:
            self._lease = Lease(sent_s)
            self._told = self._lease.state(now_s)
            return
        # The lease looks at the clock before it believes: a long silence is told even so.
        self._lease.acknowledged(sent_s, now_s)
        self.check(now_s)

    def _deliver(self, records: list[Record]) -> None:
        for record in records:
            if record.key != self.incarnation:
                continue  # another worker's life in the same partition
            try:
                control = wire.decode(WorkerControl, record.value)
            except InvalidRecord as error:
                metrics.UNREADABLE.labels(record.topic).inc()
                _log.error("order unreadable", reason=error.reason, offset=record.offset)
                continue
            self._ordered(self, control)
