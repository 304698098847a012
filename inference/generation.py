"""One granted epoch, from its grant until the engine computes no more: start, show, stop.

Owns the engine's run and the appends of one answer. `finish.py` does what follows. It decides
nothing by itself: text and pacing are the outbox's, writing rights the clearance's, ends the
ending's; here they meet Redis, the engine and the clock.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import msgspec
import structlog

from connectors.errors import RedisRefused, StreamOrderBroken
from connectors.redis.writer import AppendCode, Appended, StreamWriter
from inference import metrics
from inference.alarm import Alarm
from inference.clearance import Clearance
from inference.ending import (
    UNCOMPUTABLE,
    UNSTARTED,
    AbortCause,
    Failure,
    failure_of,
)
from inference.engines.base import (
    Delta,
    Done,
    Engine,
    EngineError,
    EngineErrorKind,
    EngineRequest,
)
from inference.life import Life
from inference.log import Outgoing, describe
from inference.outbox import Append, Outbox, Pace, Verdict
from inference.payloads import Payload, engine_request
from inference.settings import InferenceSettings
from schemas.generated.types import FinishReason, Granted, OwnedEpoch, Probe, RunsInbox, StepRequest
from topics.registry import RUNS_INBOX
from topics.runtime.clock import BrokerClock

ABORT_S_MAX: Final = 35.0
"""An engine that has not stopped by then is dead; engines look after themselves sooner."""
_POLL_S: Final = 0.25  # while the lease is in doubt, nothing rings when it is not any more

_APPENDS: Final = {code: metrics.APPENDS.labels(code.value) for code in AppendCode}

_log = structlog.get_logger()


class Parts(msgspec.Struct, frozen=True):
    """What all answers of a worker share."""

    engine: Engine
    writer: StreamWriter
    outgoing: Outgoing
    broker: BrokerClock
    clock: Callable[[], float]
    settings: InferenceSettings
    pace: Pace
    model_version: str
    engine_died: Callable[[str], None]


class Generation:
    """Orders come in through the plain methods, from the loop; `compute` returns at the end."""

    def __init__(
        self,
        parts: Parts,
        life: Life,
        step: StepRequest,
        granted: Granted,
        payload: "asyncio.Task[Payload | None]",
    ) -> None:
        now_s = parts.clock()
        self.step = step
        self.granted = granted
        self.life = life
        self.parts = parts
        self.alarm = Alarm(asyncio.get_running_loop())
        self.clearance = Clearance(suspended=not life.live)
        self.outbox = Outbox(parts.pace, now_s, parts.settings.answer_bytes_max)
        self.end: Done | Failure | None = None
        self.cause: AbortCause | None = None
        self.output_tokens = 0
        self.input_tokens = 0
        self.hurry = False
        self._granted_s = now_s
        self._payload = payload
        self._pump: asyncio.Task[None] | None = None
        self._aborts: asyncio.Task[None] | None = None
        self._abort_s = 0.0
        self._tokens_at_abort: int | None = None
        self._first_shown = False
        self._hangs = False
        payload.add_done_callback(lambda _: self.alarm.ring())

    @property
    def id(self) -> str:
        return self.step.spec.generation_id

    @property
    def owned(self) -> OwnedEpoch:
        """What the heartbeat tells of it."""
        return OwnedEpoch(
            generation_id=self.id, epoch=self.step.epoch, output_tokens=self.output_tokens
        )

    def stop(self) -> None:
        """A stop order: as STOP from the stream, without waiting for the next append."""
        self.abort(AbortCause.STOPPED)

    def fence(self) -> None:
        """Another epoch is current, or the run is over."""
        self.clearance.fence()
        self.abort(AbortCause.FENCED)

    def current(self, stopped: bool) -> None:
        """The answer to a Probe."""
        self.clearance.current()
        self.alarm.ring()
        if stopped:
            self.stop()

    def suspend(self) -> None:
        """The lease is in doubt: nothing more is written until runs was asked."""
        self.clearance.suspend()

    def abort(self, cause: AbortCause) -> None:
        """Stops the engine; the first cause stays."""
        if self.cause is not None or self.end is not None:
            return
        self.cause = cause
        self._abort_s = self.parts.clock()
        self._tokens_at_abort = self.output_tokens
        if self._pump is not None:
            self._aborts = asyncio.create_task(self._abort_engine())
        self.alarm.ring()

    def drain(self) -> None:
        """The process ends: stop computing, and wait for no store that is away."""
        self.hurry = True
        self.abort(AbortCause.DRAINED)
        self.alarm.ring()

    async def compute(self) -> None:
        """Returns once the engine computes this epoch no more and `end` says why."""
        try:
            while self.end is None:
                await self._turn(self.parts.clock())
        finally:
            await self._put_down()
        if self._tokens_at_abort is not None:
            made = self.end.output_tokens if isinstance(self.end, Done) else self.output_tokens
            metrics.RESIDUAL_TOKENS.observe(max(0, made - self._tokens_at_abort))

    async def _turn(self, now_s: float) -> None:
        """One look at everything; then waits for what comes next."""
        self.life.check(now_s)
        self._look_at_deadlines(now_s)
        if self._pump is None and self.cause is not None:
            self.end = UNSTARTED
            return
        if self._pump is None and self._payload.done() and self.clearance.cleared:
            await self._start(self._payload.result())
            return
        if self.clearance.cleared and self.outbox.due_s() <= now_s:
            await self.append(now_s)
        self.probe(now_s)
        await self.alarm.wait(self.pause_s(self.parts.clock()))

    def pause_s(self, now_s: float) -> float:
        """How long nothing is due."""
        if not self.clearance.cleared:
            return _POLL_S
        return self.outbox.due_s() - now_s

    def probe(self, now_s: float) -> None:
        """Asks runs whether the epoch is current, where that is due: the lease was in doubt, or
        the stream is lost."""
        due = self.clearance.probe_due(now_s, self.life.live)
        if self.clearance.cleared and self.outbox.probe_due(now_s):
            due = True
        if not due:
            return
        metrics.PROBES.inc()
        question = Probe(
            generation_id=self.id, epoch=self.step.epoch, incarnation=self.life.incarnation
        )
        self.parts.outgoing.tell(
            RUNS_INBOX,
            self.step.spec.runs_key,
            RunsInbox(event_id=self.parts.outgoing.mint.event_id(), body=question),
        )

    async def append(self, now_s: float) -> None:
        """Appends what is due, or only looks; acts on the answer."""
        append = self.outbox.take()
        answer = await self._write(append, now_s)
        if answer is None:
            return
        _APPENDS[answer.code].inc()
        verdict = self.outbox.settle(append, answer, now_s)
        if not self._first_shown and append.data is not None and verdict is not Verdict.FENCED:
            self._note_first_text(answer.code)
        if verdict is Verdict.FENCED:
            self.fence()
        elif verdict is Verdict.STOP:
            self.stop()

    async def _write(self, append: Append, now_s: float) -> Appended | None:
        try:
            return await self.parts.writer.append(
                self.id, self.step.epoch, append.sequence, append.event, append.data
            )
        except StreamOrderBroken:
            _log.error("stream order broken", generation_id=self.id, epoch=self.step.epoch)
            self.outbox.skip(append, now_s)
            return None
        except RedisRefused as error:
            _log.error("append refused", generation_id=self.id, error=str(error))
            return Appended(AppendCode.AWAY)

    def _note_first_text(self, code: AppendCode) -> None:
        if code in (AppendCode.OK, AppendCode.STOP):
            self._first_shown = True
            metrics.FIRST_TEXT_SECONDS.observe(self.parts.clock() - self._granted_s)

    def _look_at_deadlines(self, now_s: float) -> None:
        late_ms = self.parts.broker.now_ms(now_s) - self.granted.run_deadline_at_ms
        if late_ms >= self.parts.settings.deadline_grace_ms:
            self.abort(AbortCause.DEADLINE)
        if self.cause is not None and now_s - self._abort_s > ABORT_S_MAX:
            self._hangs = True
            self.end = Failure(FinishReason.BACKEND_DEAD)
            self.parts.engine_died("an engine did not stop a sequence")

    async def _start(self, payload: Payload | None) -> None:
        if payload is None:
            _log.warning("payload missing", generation_id=self.id, epoch=self.step.epoch)
            self.end = UNCOMPUTABLE
            return
        if self.step.spec.model_version != self.parts.model_version:
            # Another version's answer under this name would be a lie.
            _log.error("other model version", generation_id=self.id)
            self.end = UNCOMPUTABLE
            return
        try:
            request = await engine_request(self.parts.engine.family, self.step, payload)
        except ValueError:
            _log.error("request cannot be computed", generation_id=self.id)
            self.end = UNCOMPUTABLE
            return
        self._pump = asyncio.create_task(self._run_engine(request))
        self.input_tokens = len(request.prompt.token_ids)
        if self.cause is not None:  # stopped while the prompt was made
            self._aborts = asyncio.create_task(self._abort_engine())

    async def _run_engine(self, request: EngineRequest) -> None:
        end: Done | Failure = Failure(FinishReason.FAILED)
        try:
            async with aclosing(self.parts.engine.generate(request)) as steps:
                async for step in steps:
                    if isinstance(step, Done):
                        end = step
                        break
                    self._take(step)
        except EngineError as error:
            _log.warning(
                "engine failed", generation_id=self.id, kind=error.kind.value, error=str(error)
            )
            end = failure_of(error.kind)
            if error.kind is EngineErrorKind.ENGINE_DEAD:
                self.parts.engine_died(str(error))
            if error.kind is EngineErrorKind.TOO_LONG:
                self.input_tokens = 0
        finally:
            self.end = end if self.end is None else self.end
            self.alarm.ring()

    async def _abort_engine(self) -> None:
        try:
            await self.parts.engine.abort(self.id, self.step.epoch)
        except EngineError as error:
            self.parts.engine_died(str(error))

    def _take(self, step: Delta) -> None:
        self.output_tokens += step.tokens
        if step.text and self.outbox.add(step.text):
            self.alarm.ring()
        if self.outbox.full:
            self.abort(AbortCause.FULL)

    async def _put_down(self) -> None:
        """Nothing of the engine's run may outlive `compute`."""
        tasks = [task for task in (self._pump, self._aborts) if task is not None]
        if self.end is None or self._hangs:
            for task in tasks:
                task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.error("engine run broke", generation_id=self.id, error=describe(outcome))
