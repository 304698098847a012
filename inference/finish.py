"""What follows when the engine is done: the rest of the text, the final row, then `Finished`.

Owns that order for one epoch: nothing is told as finished before its row is stored, except a
failure, which claims no text. It never appends a terminal; the closer does.
"""

import asyncio
from typing import Final, Protocol

import structlog

from connectors.errors import RowTooLarge, StoreUnavailable, Unfit
from connectors.store.rows import Result, RowPhase
from inference import metrics
from inference.ending import FAILURES, final_row, finish_reason, usage_of
from inference.generation import Generation
from schemas.generated.types import Finished, FinishReason, RunsInbox
from topics.registry import RUNS_INBOX

_STORE_PAUSE_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
_TELL_PAUSE_S: Final = 0.5

_log = structlog.get_logger()


class Results(Protocol):
    """What is used of `connectors.store.Store`."""

    async def put_result(self, row: Result, phase: RowPhase) -> None:
        """Writes the whole row. Raises StoreUnavailable: the same write is harmless again;
        RowTooLarge, Unfit: it will never be taken."""


class Finish:
    """The way of one computed epoch out of the worker."""

    def __init__(self, generation: Generation, results: Results, started_at_ms: int) -> None:
        assert generation.end is not None, "the engine must have ended"
        self._generation = generation
        self._results = results
        self._started_at_ms = started_at_ms
        self._reason = finish_reason(generation.end, generation.cause)
        self._usage = usage_of(generation.end, generation.input_tokens, generation.output_tokens)

    async def run(self) -> FinishReason:
        """The reason that was told, once runs has it in its log."""
        await self._show_rest()
        await self._pause("row")
        stored = await self._store()
        if not (stored or self._generation.clearance.fenced) and self._reason not in FAILURES:
            # Never called complete: the text is nowhere but in what the stream showed.
            self._reason = FinishReason.FAILED
        await self._pause("finished")
        await self._tell()
        metrics.ENDS.labels(self._reason.value).inc()
        metrics.OUTPUT_TOKENS.inc(self._usage.output_tokens)
        return self._reason

    async def _pause(self, point: str) -> None:
        """Where tests ask for it: time enough to kill the process at exactly this point."""
        settings = self._generation.parts.settings
        if settings.pause_at != point:
            return
        _log.warning("paused", at=point, generation_id=self._generation.id)
        with metrics.PAUSED.track_inprogress():
            await asyncio.sleep(settings.pause_s)

    async def _show_rest(self) -> None:
        """Appends what is left, for a bounded time: the closer completes what is not shown."""
        generation = self._generation
        give_up_s: float | None = None
        while generation.outbox.pending and await self._cleared():
            now_s = generation.parts.clock()
            if give_up_s is None:
                give_up_s = now_s + generation.parts.settings.last_append_s
            elif now_s >= give_up_s:
                return
            elif generation.outbox.due_s() > now_s:
                await generation.alarm.wait(generation.outbox.due_s() - now_s)
                continue
            await generation.append(now_s)

    async def _store(self) -> bool:
        """True once the row is stored; False past the run's deadline, for a failure whose store
        is away, where the store will never take it, or fenced."""
        generation = self._generation
        row: Result | None = None
        tries = 0
        while await self._cleared():
            now_ms = generation.parts.broker.now_ms(generation.parts.clock())
            if row is None:  # once: two different rows must never share one timestamp
                text = generation.outbox.text()
                row = final_row(generation.step, text, self._reason, self._usage, now_ms)
            try:
                await self._results.put_result(row, RowPhase.FINAL)
            except StoreUnavailable:
                metrics.STORE_WAITS.inc()
            except (RowTooLarge, Unfit) as error:
                _log.error("row refused", generation_id=generation.id, error=str(error))
                return False
            else:
                return True
            late = now_ms >= generation.granted.run_deadline_at_ms
            if late or generation.hurry or self._reason in FAILURES:
                return False
            await generation.alarm.wait(_STORE_PAUSE_S[min(tries, len(_STORE_PAUSE_S) - 1)])
            tries += 1
            # The stream is kept alive, and tells if the run ended without us.
            await generation.append(generation.parts.clock())
        return False

    async def _tell(self) -> None:
        """Sends `Finished` until the log has it; the same event each time."""
        generation = self._generation
        finished = Finished(
            generation_id=generation.id,
            epoch=generation.step.epoch,
            incarnation=generation.life.incarnation,
            reason=self._reason,
            usage=self._usage,
            code_points=generation.outbox.code_points,
            started_at_ms=self._started_at_ms,
        )
        event = RunsInbox(event_id=generation.parts.outgoing.mint.event_id(), body=finished)
        runs_key = generation.step.spec.runs_key
        while True:
            await self._cleared()  # of a fenced epoch only the usage is told
            if await generation.parts.outgoing.ensure(RUNS_INBOX, runs_key, event):
                return
            await asyncio.sleep(_TELL_PAUSE_S)

    async def _cleared(self) -> bool:
        """Waits until this epoch may write; False once it never may again."""
        generation = self._generation
        while not generation.clearance.fenced:
            now_s = generation.parts.clock()
            generation.life.check(now_s)
            if generation.clearance.cleared:
                return True
            generation.probe(now_s)
            await generation.alarm.wait(generation.pause_s(now_s))
        return False
