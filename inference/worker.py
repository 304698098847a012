"""The worker: reads ahead, claims what fits, runs what is granted, and ends in order.

Owns the wiring of one process: lanes, lives, claims and answers meet here. It decides nothing
that a small module beside it decides.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from connectors.redis.writer import StreamWriter
from inference import metrics
from inference.answers import Answers
from inference.claims import Claims, Key, Pending, Proposal
from inference.engines.base import Engine
from inference.finish import Results
from inference.generation import Parts
from inference.lanes import Lanes
from inference.life import Life
from inference.lives import Lives
from inference.log import Log, Mint, Outgoing, describe, real_mint
from inference.numbers import HighestNumber
from inference.outbox import Pace
from inference.payloads import Payload, Payloads
from inference.settings import InferenceSettings
from schemas.generated.types import (
    Claim,
    ClaimRefused,
    Granted,
    Lane,
    RunsInbox,
    WorkerControl,
)
from topics.models import Model
from topics.registry import LANE_TOPICS, RUNS_INBOX
from topics.runtime.clock import BrokerClock

LANES: Final = (Lane.PAID, Lane.FREE)
"""Served here, first to last."""
TICK_S: Final = 0.1
STUCK_S: Final = 5.0
"""A loop that has not ticked for this long serves nobody."""
TELL_S: Final = 2.0
"""After the last abort, for rows and `Finished`. With the drain, the goodbye and the closes it
stays under the 25 s a worker has from SIGTERM to its exit."""
TELL_DEAD_S: Final = 10.0
"""The same after an engine died: all its answers end at once."""
LEAVE_S: Final = 1.2

_log = structlog.get_logger()


class Outside(msgspec.Struct, frozen=True):
    """Everything a worker talks to."""

    log: Log
    engine: Engine
    writer: StreamWriter
    payloads: Payloads
    results: Results
    clock: Callable[[], float]
    mint: Mint = msgspec.field(default_factory=real_mint)


class Ending(msgspec.Struct, frozen=True):
    """Why the worker ends and how long its answers may go on. `reason` None: it was asked to."""

    reason: str | None
    drain_s: float
    tell_s: float


class Worker:
    """`run` serves until `stop` or something fatal. Made and used on one loop."""

    def __init__(
        self, outside: Outside, settings: InferenceSettings, model: Model, name: str
    ) -> None:
        self._outside = outside
        self._settings = settings
        self._model = model
        self._name = name
        self._clock = outside.clock
        broker = BrokerClock()
        self._outgoing = Outgoing(outside.log, broker, outside.clock, outside.mint)
        self._claims = Claims(settings.claim_retry_ms / 1_000)
        self._numbers = HighestNumber()
        self._payloads: dict[Key, asyncio.Task[Payload | None]] = {}
        topics = {lane: LANE_TOPICS[(model.pool, lane)] for lane in LANES}
        self._lanes = Lanes(topics, settings.read_ahead_max, self._fill)
        parts = Parts(
            engine=outside.engine,
            writer=outside.writer,
            outgoing=self._outgoing,
            broker=broker,
            clock=outside.clock,
            settings=settings,
            pace=Pace(settings.flush_ms / 1_000, settings.idle_ms / 1_000),
            model_version=model.version,
            engine_died=self._engine_died,
        )
        self._answers = Answers(parts, outside.results, self._fill)
        self._lives = Lives(
            outside.log, outside.clock, self._make_life, self._answers.busy, self._claim_again
        )
        self._engine_ready = False
        self._accepting = False
        self._ticking: asyncio.Task[None] | None = None
        self._ticked_s = 0.0
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    async def run(self) -> str | None:
        """Serves until the end was asked for (None) or forced (why), and ends in order."""
        starting = asyncio.create_task(self._start())
        starting.add_done_callback(self._started)
        try:
            ending = await self._ending
            _log.info("worker ends", reason=ending.reason, answers=len(self._answers))
            starting.cancel()
            await self._drain(ending)
            await self._leave()
        finally:
            await self._put_down(starting)
        return ending.reason

    def stop(self) -> None:
        """SIGTERM: claim no more, let answers go on for a while, then end."""
        self._end(Ending(None, self._settings.drain_s, TELL_S))

    def fatal(self, reason: str) -> None:
        """The log can be written no more: nothing can be told, only another process helps."""
        self._end(Ending(reason, 0.0, 0.0))

    def missing(self) -> Mapping[str, str]:
        """What keeps the worker from serving -> why. May be asked from any thread."""
        found: dict[str, str] = {}
        if not self._engine_ready:
            found["engine"] = "loading"
        life = self._lives.current
        if life is None:
            found["lease"] = "no life begun"
        elif not life.claims:
            found["lease"] = "heartbeats are not acknowledged"
        if not self._lanes.joined:
            found["lanes"] = "not joined"
        if self._ending.done():
            found["worker"] = "ending"
        if self._ticked_s and self._clock() - self._ticked_s > STUCK_S:
            found["loop"] = "stuck"
        return found

    async def _start(self) -> None:
        """Engine, orders, first heartbeat, groups, in this order: no claim can be made before its
        answer would be heard, and no lease ends before it began."""
        await self._outside.engine.start()
        self._engine_ready = True
        await self._lives.begin()
        self._accepting = True
        self._ticking = asyncio.create_task(self._tick_forever())
        self._ticking.add_done_callback(self._broke)
        await self._lanes.join(self._outside.log, self._model.pool, self._name)
        _log.info("worker serves", pool=self._model.pool, slots=self._model.slots)

    def _started(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._end(Ending(f"no start: {type(error).__name__}: {error}", 0.0, 0.0))

    def _broke(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._end(Ending(f"clock: {describe(error)}", 0.0, TELL_S))

    def _end(self, ending: Ending) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)

    def _engine_died(self, why: str) -> None:
        self._end(Ending(f"engine: {why}", TELL_DEAD_S, TELL_S))

    def _make_life(self) -> Life:
        return Life(
            f"{self._name}.{self._outgoing.mint.boot_id()}",
            self._model.pool,
            self._model.slots,
            self._settings.heartbeat_s,
            self._outgoing,
            self._clock,
            self._answers.owned,
            self._ordered,
            self._answers.worse,
        )

    # --- claims

    def _fill(self) -> None:
        """Claims while something fits: called at every change that may make room."""
        while self._accepting and self._lives.claims and self._room():
            request = self._lanes.next()
            if request is None:
                return
            match self._claims.propose(request, self._clock()):
                case Proposal.KNOWN:
                    self._lanes.answered(request)
                case Proposal.CLAIM:
                    self._payloads[request.key] = asyncio.create_task(
                        self._outside.payloads.load(
                            request.step.spec.generation_id, self._settings.payload_wait_s
                        )
                    )
                    self._send_claim(self._claims.of(request.key))
                case Proposal.JOINED:
                    pass
        metrics.PENDING.set(len(self._claims))

    def _room(self) -> bool:
        slots = self._model.slots
        return (
            self._answers.computing + self._claims.holding < slots
            and len(self._claims) < 4 * slots
            and self._answers.ending < self._settings.ending_max
        )

    def _send_claim(self, pending: Pending) -> None:
        life = self._lives.current
        if life is None:
            return
        spec = pending.request.step.spec
        claim = Claim(
            generation_id=spec.generation_id,
            epoch=pending.request.step.epoch,
            incarnation=life.incarnation,
        )
        self._outgoing.tell(
            RUNS_INBOX,
            spec.runs_key,
            RunsInbox(event_id=self._outgoing.mint.event_id(), body=claim),
        )

    def _claim_again(self) -> None:
        """A new life: what waits is claimed under its name."""
        for pending in self._claims.all():
            self._send_claim(pending)
        self._fill()

    def _ordered(self, life: Life, control: WorkerControl) -> None:
        if not self._numbers.news(control):
            return
        match control.body:
            case Granted() | ClaimRefused():
                self._answered(life, control, control.body)
            case _:
                self._answers.order(control)

    def _answered(self, life: Life, control: WorkerControl, answer: Granted | ClaimRefused) -> None:
        key = (control.generation_id, control.epoch)
        pending = self._claims.answered(key)
        if pending is None:
            return  # answered before
        for request in pending.requests:
            self._lanes.answered(request)
        payload = self._payloads.pop(key)
        metrics.CLAIM_SECONDS.observe(self._clock() - pending.first_at_s)
        if isinstance(answer, Granted):
            metrics.CLAIMS.labels("granted").inc()
            self._answers.begin(life, pending.request.step, answer, payload)
        else:
            metrics.CLAIMS.labels(answer.reason.value).inc()
            payload.cancel()
            self._fill()

    # --- time and end

    async def _tick_forever(self) -> None:
        while True:
            now_s = self._clock()
            self._ticked_s = now_s
            self._lives.tick(now_s)
            if self._lives.claims:
                for pending in self._claims.overdue(now_s):
                    metrics.CLAIMS_REPEATED.inc()
                    self._send_claim(pending)
            self._lanes.tick(now_s)
            if self._lives.failed is not None:
                self._end(Ending(self._lives.failed, 0.0, TELL_S))
            if self._lanes.failed is not None:
                reason = f"a lane cannot be read: {self._lanes.failed}"
                self._end(Ending(reason, self._settings.drain_s, TELL_S))
            self._fill()
            await asyncio.sleep(TICK_S)

    async def _drain(self, ending: Ending) -> None:
        self._accepting = False
        self._lanes.stop()
        # Stale claims are not waited for: their partition of runs is away.
        if not await self._quiet(ending.drain_s, lambda: self._claims.holding == 0):
            self._answers.drain()
            await self._quiet(ending.tell_s, lambda: True)
        if len(self._answers):
            _log.error("answers left to their leases", answers=len(self._answers))
        await self._answers.cancel()

    async def _quiet(self, seconds: float, settled: Callable[[], bool]) -> bool:
        until_s = self._clock() + seconds
        while len(self._answers) or not settled():
            if self._clock() >= until_s:
                return False
            await asyncio.sleep(TICK_S / 2)
        return True

    async def _leave(self) -> None:
        try:
            async with asyncio.timeout(LEAVE_S):
                await asyncio.gather(self._lanes.leave(), self._lives.leave())
        except TimeoutError:
            _log.warning("left without goodbye")

    async def _put_down(self, starting: "asyncio.Task[None]") -> None:
        """Nothing of the worker may outlive `run`."""
        tasks: list[asyncio.Task[Any]] = [starting, *self._payloads.values()]
        if self._ticking is not None:
            tasks.append(self._ticking)
        for task in tasks:
            task.cancel()
        self._lives.cancel()
        await asyncio.gather(self._answers.cancel(), *tasks, return_exceptions=True)
