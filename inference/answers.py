"""All answers of one worker between grant and `Finished`: a task each.

Owns who runs and which order goes to whom. How one answer runs is its own business.
"""

import asyncio
from collections.abc import Callable

import structlog

from inference import metrics
from inference.claims import Key
from inference.ending import UNCOMPUTABLE, AbortCause
from inference.finish import Finish, Results
from inference.generation import Generation, Parts
from inference.lease import LeaseState
from inference.life import Life
from inference.log import describe
from inference.payloads import Payload
from schemas.generated.types import (
    Current,
    Fenced,
    Granted,
    OwnedEpoch,
    StepRequest,
    StopOrder,
    WorkerControl,
)

_log = structlog.get_logger()


class Answers:
    """`freed` is called whenever an engine's slot or a place behind it is free again."""

    def __init__(self, parts: Parts, results: Results, freed: Callable[[], None]) -> None:
        self._parts = parts
        self._results = results
        self._freed = freed
        self._running: dict[Key, Generation] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.computing = 0
        """Answers that need a slot of the engine."""

    def __len__(self) -> int:
        return len(self._running)

    @property
    def ending(self) -> int:
        """Answers computed, not yet told."""
        return len(self._running) - self.computing

    def begin(
        self,
        life: Life,
        step: StepRequest,
        granted: Granted,
        payload: "asyncio.Task[Payload | None]",
    ) -> None:
        """A granted epoch begins now."""
        generation = Generation(self._parts, life, step, granted, payload)
        self._running[(generation.id, step.epoch)] = generation
        self.computing += 1
        metrics.RUNNING.set(self.computing)
        task = asyncio.create_task(self._run(generation))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def order(self, control: WorkerControl) -> None:
        """An order about an epoch that runs here; for any other it is void."""
        generation = self._running.get((control.generation_id, control.epoch))
        if generation is None:
            return
        match control.body:
            case StopOrder():
                generation.stop()
            case Current(stop=stop):
                generation.current(stopped=stop is not None)
            case Fenced():
                generation.fence()
            case _:
                pass

    def owned(self, life: Life) -> tuple[OwnedEpoch, ...]:
        """What a life's heartbeat tells."""
        return tuple(g.owned for g in self._running.values() if g.life is life)

    def busy(self, life: Life) -> bool:
        """True while answers of this life run."""
        return any(generation.life is life for generation in self._running.values())

    def worse(self, life: Life, state: LeaseState) -> None:
        """The lease is in doubt: nothing more is written, past its end nothing more computed."""
        for generation in self._running.values():
            if generation.life is life:
                generation.suspend()
                if state is LeaseState.LAPSED:
                    generation.abort(AbortCause.LAPSED)

    def drain(self) -> None:
        """Stops all of them; each still tells its end."""
        for generation in self._running.values():
            generation.drain()

    async def cancel(self) -> None:
        """Ends what is left without a word: leases will say so."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, generation: Generation) -> None:
        began_at_ms = self._parts.outgoing.mint.wall_ms()
        key = (generation.id, generation.step.epoch)
        try:
            await self._compute(generation)
            reason = await Finish(generation, self._results, began_at_ms).run()
            _log.info(
                "epoch ended",
                generation_id=generation.id,
                epoch=generation.step.epoch,
                reason=reason.value,
                output_tokens=generation.output_tokens,
            )
        except Exception as error:  # noqa: BLE001  the outermost frame of one answer
            _log.error("answer lost", generation_id=generation.id, error=describe(error))
        finally:
            del self._running[key]
            metrics.ENDING.set(self.ending)
            self._freed()

    async def _compute(self, generation: Generation) -> None:
        try:
            await generation.compute()
        except Exception as error:  # noqa: BLE001  a fault of ours must end as a told failure
            _log.error("answer broke", generation_id=generation.id, error=describe(error))
            generation.end = generation.end or UNCOMPUTABLE
        finally:
            self.computing -= 1
            metrics.RUNNING.set(self.computing)
            metrics.ENDING.set(self.ending)
            self._freed()
