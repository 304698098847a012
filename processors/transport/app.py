"""The Faust app of one machine. Owns Faust's settings, and carries what driver, recovery and watch share.

Never uses exactly_once, group_by, take, windows, global tables, LiveCheck or Faust's web server.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import faust

from processors.metrics import TransportMetrics
from processors.transport.recovery import Tables
from processors.transport.tenure import End, Tenure
from topics.topic import Topic

SESSION_S: Final = 10.0
HEARTBEAT_S: Final = 3.0
REBALANCE_S: Final = 30.0
"""Longest wait of the group for a member to finish what it took; more than SETTLE_S_MAX."""


class Store(Protocol):
    """The local table by partition."""

    def keep(self, partitions: Collection[int]) -> None:
        """Forgets all keys of other partitions."""

    def fill(self, partition: int, rows: Mapping[bytes, bytes]) -> None:
        """The whole of one partition, in place of what was held of it."""


class App(faust.App):  # type: ignore[misc]
    """`store`, `recovered` and `put_again` are set before the start: the table, who looks at it first, and
    who answers what strangers wrote: a partition's keys with the strangers' seqs."""

    store: Store
    recovered: Callable[[Collection[int], str], Awaitable[None]]
    put_again: Callable[[int, Sequence[tuple[bytes, int]]], Awaitable[None]]

    def __init__(
        self,
        machine: str,
        inbox: Topic,
        changelog: Topic,
        bootstrap: str,
        instance: str,
        folder: Path,
        end: End,
    ) -> None:
        """`instance` is the member's static name: one started again takes its partitions back at once,
        and a second one under the same name fences the first."""
        self.inbox = inbox
        self.changelog = changelog.name
        self.bootstrap = bootstrap
        self.metrics = TransportMetrics(machine)
        self.tenure = Tenure(SESSION_S, end)
        super().__init__(
            f"milena-{machine}",
            broker=f"milena://{bootstrap}",
            store="memory://",
            TableManager=Tables,
            datadir=str(folder),
            autodiscover=False,
            web_enabled=False,
            topic_allow_declare=False,
            topic_disable_leader=True,
            table_standby_replicas=0,
            processing_guarantee="at_least_once",
            key_serializer="raw",
            value_serializer="raw",
            stream_wait_empty=False,
            stream_buffer_maxsize=512,
            cython_optimizations=True,
            consumer_group_instance_id=instance,
            broker_session_timeout=SESSION_S,
            broker_heartbeat_interval=HEARTBEAT_S,
            broker_rebalance_timeout=REBALANCE_S,
            broker_request_timeout=30.0,
            broker_commit_interval=1.0,
            # Nobody fetches during a recovery. What hangs is the watchdog's to end.
            broker_max_poll_interval=300.0,
            consumer_auto_offset_reset="earliest",
            producer_acks=-1,
            producer_linger=0,
            producer_max_request_size=4 * 1_048_576,
        )

    def on_init_dependencies(self) -> Iterable[Any]:
        """Without Faust's monitor: it keeps books of every event, and nobody reads them."""
        parts: Iterable[Any] = super().on_init_dependencies()
        self.sensors.remove(self.monitor)
        return parts

    def on_rebalance_return(self) -> None:
        """Nothing: only a monitor wants to know."""

    def on_rebalance_end(self) -> None:
        self.rebalancing = False
