"""The real folds of runs and workers and the real closer around a worker, over the log in memory.

What a shell does for them is played here in a few lines; nothing but the worker is hurt in these tests.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec

from connectors.closer.apply import StreamMoved, apply
from connectors.errors import RedisAway, StoreUnavailable
from connectors.log import Record
from processors.machine import Event, Outputs, stamp
from processors.runs.fold import fold as runs_fold
from processors.runs.state import Runs
from processors.workers.fold import fold as workers_fold
from processors.workers.state import Worker
from schemas.generated.types import (
    Due,
    LeaseExpired,
    MeteringInbox,
    RunFact,
    RunKind,
    RunsInbox,
    Spec,
    Start,
    Stop,
    StopReason,
    StreamControl,
    Used,
    WorkersInbox,
)
from tests.inference.support import Bench, until
from topics import wire
from topics.registry import (
    CONTROL_STREAMS,
    FACTS_RUNS,
    METERING_INBOX,
    RUNS_INBOX,
    WORKERS_INBOX,
)
from topics.topic import Topic

LIVE_S: Final = 3_600
Fold = Callable[[Any, Event], tuple[Any, Outputs]]


class FoldedMachine:
    """One fold over its inbox: states by key, `Due` events by its own deadlines."""

    def __init__(
        self,
        bench: Bench,
        inbox: Topic,
        envelope: type[RunsInbox] | type[WorkersInbox],
        fold: Fold,
        deadline: Callable[[Any], int | None],
    ) -> None:
        self._log = bench.log
        self._inbox = inbox
        self._envelope = envelope
        self._fold = fold
        self._deadline = deadline
        self._asked: dict[str, int] = {}
        self.states: dict[str, Any] = {}
        for partition in range(self._log.partitions(inbox)):
            self._log.assigned(inbox, partition, self._read)

    def due(self, now_ms: int) -> None:
        """Appends the `Due` of every key whose deadline passed."""
        for key, state in self.states.items():
            deadline_ms = self._deadline(state)
            if deadline_ms is None or deadline_ms > now_ms or self._asked.get(key) == deadline_ms:
                continue
            self._asked[key] = deadline_ms
            body = Due(deadline_at_ms=deadline_ms, live_s=LIVE_S)
            self._log.send(self._inbox, key, self._envelope(event_id=f"{key}/{now_ms}", body=body))

    def _read(self, records: list[Record]) -> None:
        for record in records:
            told = wire.decode(self._envelope, record.value)
            event = Event(
                event_id=told.event_id, key=record.key, append_ms=record.append_ms, body=told.body
            )
            state, outputs = self._fold(self.states.get(record.key), event)
            self.states.pop(record.key, None)
            if state is not None:
                self.states[record.key] = state
            for output in stamp(outputs, told.event_id):
                self._log.send(output.topic, output.key, output.value, output.partition)


class Product:
    """A bench whose machines are the real ones. `ask` starts a run, as accounts would."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._asked = 0
        self._orders: asyncio.Queue[StreamControl] = asyncio.Queue()
        self._runs = FoldedMachine(bench, RUNS_INBOX, RunsInbox, runs_fold, Runs.next_deadline_ms)
        self._workers = FoldedMachine(
            bench, WORKERS_INBOX, WorkersInbox, workers_fold, _check_at_ms
        )
        for partition in range(bench.log.partitions(CONTROL_STREAMS)):
            bench.log.assigned(CONTROL_STREAMS, partition, self._order)
        self._tasks = [asyncio.create_task(self._tick()), asyncio.create_task(self._close_runs())]

    async def ask(self, script: dict[str, Any], **spec: Any) -> str:
        """The id of a run that has just begun."""
        self._asked += 1
        generation = f"gen_{self._asked:026d}"
        await self._bench.put_payload(generation, script)
        asked: Spec = self._bench.spec(generation, **spec)
        start = Start(
            request_id=f"req_{generation}",
            user_id="usr_1",
            reply_partition=0,
            submitted_at_ms=self._bench.clock.ms(),
            limits=(),
            spec=asked,
        )
        self.tell(asked.runs_key, start)
        return generation

    def stop(self, generation: str) -> None:
        """The user's stop."""
        body = Stop(generation_id=generation, user_id="usr_1", reason=StopReason.USER)
        self.tell(f"run_{generation}", body)

    def tell(self, runs_key: str, body: Start | Stop | LeaseExpired) -> None:
        self._asked += 1
        self._bench.log.send(
            RUNS_INBOX, runs_key, RunsInbox(event_id=f"event/{self._asked}", body=body)
        )

    async def ended(self, generation: str, seconds: float = 15) -> RunFact:
        """The fact of its one end, once the closer is done."""
        kinds = (RunKind.ENDED, RunKind.CLOSED)
        await until(lambda: {f.kind for f in self.facts(generation)}.issuperset(kinds), seconds)
        ends = [fact for fact in self.facts(generation) if fact.kind is RunKind.ENDED]
        assert len(ends) == 1
        return ends[0]

    def facts(self, generation: str) -> list[RunFact]:
        found = [wire.decode(RunFact, r.value) for r in self._bench.log.records(FACTS_RUNS)]
        return [fact for fact in found if fact.generation_id == generation]

    def used(self, generation: str) -> list[Used]:
        """What metering was told."""
        records = self._bench.log.records(METERING_INBOX)
        bodies = [wire.decode(MeteringInbox, record.value).body for record in records]
        return [b for b in bodies if isinstance(b, Used) and b.generation_id == generation]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _order(self, records: list[Record]) -> None:
        for record in records:
            self._orders.put_nowait(wire.decode(StreamControl, record.value))

    async def _tick(self) -> None:
        while True:
            for machine in (self._runs, self._workers):
                machine.due(self._bench.clock.ms())
            await asyncio.sleep(0.05)

    async def _close_runs(self) -> None:
        async def tell(runs_key: str, event: RunsInbox) -> None:
            await self._bench.log.send(RUNS_INBOX, runs_key, event)

        while True:
            order = await self._orders.get()
            try:
                await apply(self._bench.streams, self._bench.store, tell, order)
            except (RedisAway, StoreUnavailable, StreamMoved):
                self._orders.put_nowait(order)
                await asyncio.sleep(0.02)


def _check_at_ms(worker: Worker) -> int:
    return worker.check_at_ms


def text_of(entries: list[Any]) -> str:
    """What a reader renders of a whole stream, its terminal apart."""
    text = ""
    for entry in entries:
        value = msgspec.json.decode(entry.data)
        if entry.event == "snapshot":
            text = value["text"]
        elif entry.event == "text.delta":
            assert value["offset"] == len(text)
            text += value["delta"]
    return text
