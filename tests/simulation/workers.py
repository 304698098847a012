"""A worker that follows the protocol and computes nothing: claim, grant, steps of time, `Finished`.

Owns the worker's side of the log: heartbeats, claims sent again, the lease that it ends by itself, a new
incarnation after it. Stands in for `inference.worker` where only the log matters.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from inference.lease import Lease, LeaseState
from schemas.generated import types as t
from tests.simulation.broker import Broker, Place, Rec
from tests.simulation.endpoints import Sender, Shared, Tail
from tests.simulation.groups import Group
from tests.simulation.laws import Books
from tests.simulation.trace import Trace
from topics import wire
from topics.models import SCRIPTED
from topics.partition import partition_of
from topics.registry import CONTROL_WORKERS, RUNS_INBOX, WORKERS_INBOX

BEAT_S: Final = 2.0
CLAIM_AGAIN_S: Final = 0.5
CLAIMS_MAX: Final = 40
STEP_S: Final = 0.25
Epoch = tuple[str, int]


class Incarnation:
    """One name, from its first heartbeat until its lease ran out."""

    def __init__(self, name: str, now_s: float) -> None:
        self.name = name
        self.beat = 0
        self.lease = Lease(now_s)
        self.owned: dict[Epoch, int] = {}
        self.over = False
        self.tail: Tail | None = None


class PlayedWorker:
    """One life of one worker process."""

    def __init__(
        self,
        broker: Broker,
        trace: Trace,
        rng: Random,
        books: Books,
        groups: Sequence[Group],
        name: str,
        life: int,
    ) -> None:
        self._broker = broker
        self._loop = broker.loop
        self._trace = trace
        self._rng = rng
        self._books = books
        self._name = f"{name}.{life}"
        self._sender = Sender(broker)
        self._lives = 0
        self._answers: dict[Epoch, asyncio.Future[Any]] = {}
        self._stops: dict[Epoch, asyncio.Event] = {}
        self._done: set[Epoch] = set()
        self._current = self._begin()
        self._lanes = [
            Shared(broker, group, name, life, lambda place, rec, at=at: self._read(at, place, rec))  # type: ignore[misc]
            for at, group in enumerate(groups)
        ]

    async def serve(self) -> None:
        """Heartbeats, for ever."""
        while True:
            self._beat()
            await asyncio.sleep(BEAT_S)

    def _begin(self) -> Incarnation:
        self._lives += 1
        life = Incarnation(f"{self._name}.{self._lives}", self._loop.time())
        place = partition_of(life.name, CONTROL_WORKERS.ring.partitions(local=True))
        life.tail = Tail(self._broker, (CONTROL_WORKERS.name, place), self._ordered)
        return life

    def _beat(self) -> None:
        life, now_s = self._current, self._loop.time()
        if life.lease.take_worst(now_s) is LeaseState.LAPSED:
            self._trace.mark("worker lapsed")
            self._trace.say(self._name, f"{life.name} lapsed")
            life.over = True
            life = self._current = self._begin()
        life.beat += 1
        counts = tuple(
            t.OwnedEpoch(generation_id=generation, epoch=epoch, output_tokens=tokens)
            for (generation, epoch), tokens in life.owned.items()
        )
        body = t.Heartbeat(pool=SCRIPTED.pool, beat=life.beat, owned=counts, slots=4)
        value = t.WorkersInbox(event_id=f"beat-{life.name}-{life.beat}", body=body)
        sent = self._sender.send(WORKERS_INBOX, life.name, value)

        def report(future: "asyncio.Future[Rec]") -> None:
            if not future.cancelled() and future.exception() is None:
                life.lease.acknowledged(now_s, self._loop.time())

        sent.add_done_callback(report)

    def _read(self, lane: int, place: Place, rec: Rec) -> None:
        step = wire.decode(t.StepRequest, rec.value)
        done = partial(self._lanes[lane].done, place, rec.offset)
        self._loop.create_task(self._run(step, done))

    async def _run(self, step: t.StepRequest, done: Callable[[], None]) -> None:
        epoch = (step.spec.generation_id, step.epoch)
        if epoch in self._done:
            self._trace.mark("step met again")
            done()
            return
        self._done.add(epoch)
        life, answer = self._current, await self._claim(step, epoch)
        done()
        if isinstance(answer, t.Granted) and not life.over:
            await self._compute(step, epoch, life)

    async def _claim(self, step: t.StepRequest, epoch: Epoch) -> Any:
        answer = self._answers[epoch] = self._loop.create_future()
        life = self._current
        for count in range(CLAIMS_MAX):
            claim = t.Claim(generation_id=epoch[0], epoch=epoch[1], incarnation=life.name)
            value = t.RunsInbox(event_id=f"claim-{life.name}-{epoch}-{count}", body=claim)
            self._sender.send(RUNS_INBOX, step.spec.runs_key, value)
            try:
                return await asyncio.wait_for(asyncio.shield(answer), CLAIM_AGAIN_S)
            except TimeoutError:
                self._trace.mark("claim sent again")
        return None

    async def _compute(self, step: t.StepRequest, epoch: Epoch, life: Incarnation) -> None:
        self._books.computes(*epoch, life.name)
        stop = self._stops[epoch] = asyncio.Event()
        reason = t.FinishReason.STOP
        life.owned[epoch] = 0
        for _ in range(self._rng.randrange(1, 24)):
            await asyncio.sleep(STEP_S)
            if life.over or life.lease.state(self._loop.time()) is LeaseState.LAPSED:
                return
            life.owned[epoch] += 5
            if stop.is_set():
                reason = t.FinishReason.STOPPED
                break
        body = t.Finished(
            generation_id=epoch[0],
            epoch=epoch[1],
            incarnation=life.name,
            reason=reason,
            usage=t.Usage(
                input_tokens=7, cached_input_tokens=0, output_tokens=life.owned.pop(epoch)
            ),
            code_points=20,
            started_at_ms=1,
        )
        value = t.RunsInbox(event_id=f"finished-{life.name}-{epoch}", body=body)
        for _ in range(CLAIMS_MAX):
            sent = self._sender.send(RUNS_INBOX, step.spec.runs_key, value)
            await asyncio.wait([sent])
            if sent.exception() is None:
                return
            await asyncio.sleep(0.5)

    def _ordered(self, _: Place, rec: Rec) -> None:
        name = rec.key.decode()
        control = wire.decode(t.WorkerControl, rec.value)
        epoch = (control.generation_id, control.epoch)
        if not name.startswith(f"{self._name}."):
            return
        match control.body:
            case t.Granted() | t.ClaimRefused():
                answer = self._answers.get(epoch)
                if answer is not None and not answer.done():
                    answer.set_result(control.body)
            case t.StopOrder():
                if epoch in self._stops:
                    self._trace.mark("stop order heard")
                    self._stops[epoch].set()


class PlayedCloser:
    """Ends what runs says has ended."""

    def __init__(
        self, broker: Broker, trace: Trace, rng: Random, group: Group, name: str, life: int
    ) -> None:
        self._loop = broker.loop
        self._rng = rng
        self._sender = Sender(broker)
        self._closed: set[str] = set()
        self._shared = Shared(broker, group, name, life, self._ordered)
        self._trace = trace

    def _ordered(self, place: Place, rec: Rec) -> None:
        order = wire.decode(t.StreamControl, rec.value)
        if not isinstance(order.body, t.Ended):
            self._shared.done(place, rec.offset)
            return
        self._loop.create_task(self._end(place, rec.offset, order, order.body))

    async def _end(self, place: Place, offset: int, order: t.StreamControl, ended: t.Ended) -> None:
        await asyncio.sleep(self._rng.uniform(0.001, 0.2))
        body = t.Closed(
            generation_id=order.generation_id,
            epoch=ended.closing_epoch,
            partial=True,
            code_points=20,
        )
        value = t.RunsInbox(event_id=f"closed-{order.event_id}", body=body)
        sent = self._sender.send(RUNS_INBOX, ended.runs_key, value)
        await asyncio.wait([sent])
        if sent.exception() is not None:
            self._trace.mark("order left to be said again")
        self._shared.done(place, offset)
