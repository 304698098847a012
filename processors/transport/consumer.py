"""The consumer as Milena runs it: reads what is committed, and commits what is acknowledged.

Owns the hand-over between Kafka's client and Faust's queues, the account of offsets and the end of an
assignment. Never lets Faust acknowledge: its streams do so from a `finally`, for skipped events and by
counting references, whether or not anything was processed.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import aiokafka
import structlog
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (
    IllegalGenerationError,
    KafkaError,
    NoError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from aiokafka.protocol.group import HeartbeatRequest, SyncGroupRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.transport.drivers import aiokafka as stock
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from processors.transport.offsets import Recreated
from processors.transport.tenure import EXIT_FENCED, EXIT_REFUSED, Tenure
from topics.runtime.clock import elapsed_s

FETCH_S: Final = 1.0
SETTLE_S_MAX: Final = 20.0
"""Longest wait, before partitions are given up, for what was taken to be acknowledged."""
YIELD_EVERY: Final = 100
FENCED_INSTANCE_ID: Final = 82
"""Kafka's code where another process took this member's static name; unknown to the client."""
_KNOWN: Final = {NoError.errno, RebalanceInProgressError.errno}
_FORGOTTEN: Final = {
    UnknownMemberIdError.errno,
    IllegalGenerationError.errno,
    FENCED_INSTANCE_ID,
}
_log = structlog.get_logger()


class Taken(ConsumerMessage):  # type: ignore[misc]
    """A record and the assignment under which it was taken."""

    __slots__ = ("assignment",)
    assignment: int


class ConsumerThread(stock.AIOKafkaConsumerThread):  # type: ignore[misc]
    """Kafka's client on its own thread and loop."""

    consumer: "Consumer"

    def _create_worker_consumer(self, transport: Any) -> aiokafka.AIOKafkaConsumer:
        conf = self.app.conf
        return aiokafka.AIOKafkaConsumer(
            client_id=conf.broker_client_id,
            group_id=conf.id,
            group_instance_id=conf.consumer_group_instance_id,
            bootstrap_servers=stock.server_list(transport.url, transport.default_port),
            # Keeps partitions where their state is: only moved ones are recovered.
            partition_assignment_strategy=[StickyPartitionAssignor],
            enable_auto_commit=False,
            auto_offset_reset=conf.consumer_auto_offset_reset,
            isolation_level="read_committed",
            max_poll_records=conf.broker_max_poll_records,
            max_poll_interval_ms=int(conf.broker_max_poll_interval * 1_000),
            max_partition_fetch_bytes=conf.consumer_max_fetch_size,
            request_timeout_ms=int(conf.broker_request_timeout * 1_000),
            session_timeout_ms=int(conf.broker_session_timeout * 1_000),
            rebalance_timeout_ms=int(conf.broker_rebalance_timeout * 1_000),
            heartbeat_interval_ms=int(conf.broker_heartbeat_interval * 1_000),
        )

    async def on_start(self) -> None:
        await super().on_start()
        coordinator = self._ensure_consumer()._coordinator
        stock_send = coordinator._send_req

        async def send(request: Any) -> Any:
            sent_s = elapsed_s()
            response = await stock_send(request)
            self._heard(request, response, sent_s)
            return response

        coordinator._send_req = send

    def _heard(self, request: Any, response: Any, sent_s: float) -> None:
        fence = self.consumer.tenure.fence
        if isinstance(request, SyncGroupRequest) and response.error_code == NoError.errno:
            fence.assigned(sent_s)
        elif isinstance(request, HeartbeatRequest):
            if response.error_code in _KNOWN:
                fence.beat(sent_s)
            elif response.error_code in _FORGOTTEN:
                fence.lost()

    async def begin(self) -> Mapping[TP, int | None]:
        """Puts every assigned partition to where the group stands; returns that, None where nowhere."""
        found: dict[TP, int | None] = await self.call_thread(self._begin)
        return found

    async def _begin(self) -> dict[TP, int | None]:
        consumer = self._ensure_consumer()
        places = [*consumer.assignment()]
        committed = await asyncio.gather(*map(consumer.committed, places))
        found = dict(zip(places, committed, strict=True))
        for tp, offset in found.items():
            if offset is not None:
                consumer.seek(tp, offset)
        fresh = [tp for tp, offset in found.items() if offset is None]
        if fresh:
            await consumer.seek_to_beginning(*fresh)
        return {TP(*tp): offset for tp, offset in found.items()}

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """False where the group did not take them: they are offered again, or belong to another."""
        asked = {TopicPartition(*tp): OffsetAndMetadata(at, "") for tp, at in offsets.items()}
        try:
            await self._ensure_consumer().commit(asked)
        except KafkaError as error:
            _log.warning("offsets not committed", reason=type(error).__name__)
            return False
        return True

    def position(self, tp: TP) -> int | None:
        """The next offset that the client will hand over."""
        subscription = self._ensure_consumer()._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        state = None if assignment is None else assignment.state_value(TopicPartition(*tp))
        return None if state is None or not state.has_valid_position else int(state.position)


class Consumer(stock.Consumer):  # type: ignore[misc]
    """Hands records to Faust in order, noted as taken; advances offsets by `acknowledged` alone."""

    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.tenure: Tenure = self.app.tenure
        self._begun = 0

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def ack(self, message: Any) -> bool:
        """Whatever Faust means by it: nothing."""
        return False

    def holds(self, message: Taken) -> bool:
        """Whether the record's assignment goes on, so that it may be processed."""
        return message.assignment == self.tenure.offsets.assignment

    def acknowledged(self, message: Taken) -> None:
        """All that follows from the record is in the log: the only thing that advances an offset."""
        self.tenure.offsets.acknowledged(message.tp, message.offset, message.assignment)

    def position_of(self, tp: TP) -> int | None:
        return self._thread.position(tp)

    async def begin(self) -> None:
        """Goes to where the group stands, and notes it. Done before an assignment's first fetch, so what
        a fetch across a change of assignment took and threw away is read again."""
        offsets, assignment = self.tenure.offsets, self.tenure.offsets.assignment
        found = await self._thread.begin()
        if assignment == offsets.assignment:
            for tp, committed in found.items():
                offsets.committed(tp, committed)

    # Faust's back-pressure stops fetching for a second; a full queue that is awaited does not.
    def on_buffer_full(self, tp: TP) -> None:
        """Nothing: the queue itself holds the reader back."""

    def on_buffer_drop(self, tp: TP) -> None:
        """Nothing, as above."""

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Nothing: the watchdog judges the outcome, and Faust's monitor would be told of every event."""

    async def _drain_messages(self, fetcher: Any) -> None:
        """Reads for ever: the one way of records into Faust."""
        offsets = self.tenure.offsets
        try:
            while not (self.should_stop or fetcher.should_stop):
                if not self.flow_active:
                    await self.wait(self.can_resume_flow)
                    continue
                assignment = offsets.assignment
                if self._begun != assignment:
                    await self.begin()
                    self._begun = assignment
                records = await self._getmany(self._get_active_partitions(), FETCH_S)
                await self._hand_over(records, assignment)
        except self.consumer_stopped_errors:
            if not self.app.should_stop:
                raise

    async def _hand_over(self, records: Any, assignment: int) -> None:
        offsets, callback = self.tenure.offsets, self.callback
        for count, (tp, record) in enumerate(self.scheduler.iterate(records)):
            try:
                if not offsets.taken(tp, record.offset, assignment):
                    return  # the assignment ended; its successor begins anew
            except Recreated as error:
                self.tenure.end(f"the inbox was re-created: {error}", EXIT_REFUSED)
                return
            message = self._to_message(tp, record)
            message.assignment = assignment
            await callback(message)
            if count % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)

    def _to_message(self, tp: Any, record: Any) -> Taken:
        return Taken(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp / 1_000,
            record.timestamp_type,
            record.headers,
            record.key,
            record.value,
            record.checksum,
            record.serialized_key_size,
            record.serialized_value_size,
            TP(*tp),
            generation_id=self.app.consumer_generation_id,
        )

    def _new_offset(self, tp: TP) -> int | None:
        return self.tenure.offsets.to_commit().get(tp)

    async def force_commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commits what is acknowledged, everything sent before it being in the log."""
        assignment, offsets = self.tenure.offsets.assignment, self.tenure.offsets.to_commit()
        return bool(offsets) and await self._commit_offsets(
            {TP(*place): at for place, at in offsets.items()}, assignment=assignment
        )

    async def _commit_offsets(
        self,
        offsets: Mapping[TP, int],
        start_new_transaction: bool = True,
        assignment: int | None = None,
    ) -> bool:
        await self.app.producer.flush()
        if assignment not in (None, self.tenure.offsets.assignment):
            return False
        if not await self._commit(offsets):
            return False  # not taken by the group: offered again at the next commit
        for tp, at in offsets.items():
            self.tenure.offsets.committed(tp, at)
            self._committed_offset[tp] = at
        return True

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finishes what was taken before another may have the partitions."""
        self.stop_flow()
        self.app.flow_control.suspend()
        try:
            async with asyncio.timeout(SETTLE_S_MAX):
                await self.tenure.gate.close()
                await self.tenure.drain()
                await self.commit()
        except TimeoutError:
            self.tenure.end("what was taken was not acknowledged in time", EXIT_FENCED)
        self.tenure.offsets.revoked()
        self.tenure.fence.revoked()
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        self.tenure.offsets.assigned(set(assigned))
        await super().on_partitions_assigned(assigned, generation_id)
