"""The deterministic engine: plays a script token by token, for tests, drills and benchmarks.

Owns the clockwork and nothing of the words (see `script.py`). Token times are computed from the
start of the sequence, so a late wake-up makes a fuller delta and never a later end. It needs no
model and no thread, and no person is ever answered by it.
"""

import asyncio
from collections.abc import AsyncGenerator

from inference.engines.base import (
    Delta,
    Done,
    EngineError,
    EngineErrorKind,
    EngineLoad,
    EngineRequest,
    FinishReason,
)
from inference.engines.script import read_script
from inference.engines.slots import SequenceKey, Slot, Slots
from inference.engines.text import TextSplitter

WAKE_S_MIN = 0.002
"""At higher rates than one token in this time, tokens share a delta."""

_CLOCK_S = 0.0005  # a timer may fire this much before its time on the loop's clock


class _Sequence:
    """One script in play. Times are seconds on the loop's clock."""

    def __init__(self, request: EngineRequest, output_tokens_max: int) -> None:
        self.script, self._pieces = read_script(request.prompt.messages)
        self._splitter = TextSplitter(request.sampling.stop)
        self._output_tokens_max = output_tokens_max
        self._input_tokens = len(request.prompt.token_ids)
        self.slot: Slot | None = None
        self.started_at: float | None = None
        self.aborted_at: float | None = None
        self._waker: asyncio.Future[None] | None = None
        self.made = 0
        ends = (len(self._pieces), output_tokens_max, self.script.fail_at, self.script.hang_at)
        self.last = min(end for end in ends if end is not None)

    def _token_at(self, number: int) -> float:
        """When token `number` (from 0) is made."""
        assert self.started_at is not None
        script = self.script
        return self.started_at + script.prefill_ms / 1000 + number / script.tokens_per_s

    def _due(self, now: float) -> int:
        """Tokens made by now."""
        late = now + _CLOCK_S - self._token_at(0)
        return min(self.last, int(late * self.script.tokens_per_s) + 1) if late >= 0 else 0

    def step(self, now: float) -> Delta | Done | None:
        """What comes next at this time; None if nothing does yet. Raises the script's failure."""
        before, shown, due = self.made, "", self._due(now)
        while self.made < due and not self._splitter.stopped:
            shown += self._splitter.feed(self._pieces[self.made])
            self.made += 1
        if self.made > before:
            return Delta(text=shown, tokens=self.made - before)
        reason = self._end(now)
        if reason is None:
            return None
        rest = self._splitter.finish()
        return Delta(text=rest, tokens=0) if rest else self.done(reason)

    def _end(self, now: float) -> FinishReason | None:
        """Why no token comes after those made, None if one does. Raises the script's failure."""
        if self._splitter.stopped:
            return FinishReason.STOP
        if self.made == self.last and now + _CLOCK_S >= self._token_at(0):
            if self.made == self.script.fail_at:
                raise EngineError(EngineErrorKind.BACKEND_ERROR, "the script failed as told")
            if self.made != self.script.hang_at:
                full = self.made == self._output_tokens_max
                return FinishReason.LENGTH if full else FinishReason.STOP
        return None if self.aborted_at is None else FinishReason.ABORTED

    def done(self, reason: FinishReason) -> Done:
        """The end, with what was really computed."""
        computed = self._input_tokens if self.started_at is not None else 0
        return Done(
            reason=reason,
            input_tokens=computed,
            cached_input_tokens=min(self.script.cached_tokens, computed),
            output_tokens=self.made,
        )

    def clock(self) -> float:
        """Now, or the moment of the abort: after it no token is made."""
        now = asyncio.get_running_loop().time()
        return now if self.aborted_at is None else min(now, self.aborted_at)

    async def rest(self) -> None:
        """Wait until something is due: a token, the end or an abort."""
        loop = asyncio.get_running_loop()
        self._waker = loop.create_future()
        timer = None
        if self.made < self.last or self.made != self.script.hang_at:
            when = max(self._token_at(self.made), loop.time() + WAKE_S_MIN)
            timer = loop.call_at(when, self.wake)
        try:
            await self._waker
        finally:
            self._waker = None
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        """Let the sequence look at the clock again."""
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)


class ScriptedEngine:
    """The engine of the `scripted` pool: see `Engine` for what it promises.

    `cached_tokens` of a script are reported up to the prompt's own length. An answer of exactly
    `output_tokens_max` tokens ends with `length`: a model's end mark would be one token more.
    """

    family = "scripted"

    def __init__(
        self, *, slots: int = 256, waiting_max: int = 1024, context_tokens: int = 1_000_000
    ) -> None:
        self.context_tokens = context_tokens
        self._slots = Slots(slots, waiting_max)
        self._live: dict[SequenceKey, _Sequence] = {}
        self._open = False

    async def start(self) -> None:
        """Nothing to load."""
        self._open = True

    async def close(self) -> None:
        """Abort what runs."""
        self._open = False
        for generation_id, epoch in list(self._live):
            await self.abort(generation_id, epoch)

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Delta | Done, None]:
        """Play the request's script; see `Engine.generate`."""
        if not self._open:
            raise EngineError(EngineErrorKind.ENGINE_DEAD, "the engine is not started")
        key = (request.generation_id, request.epoch)
        if key in self._live:
            raise ValueError("this epoch is computed already")
        sequence = _Sequence(request, request.output_tokens_room(self.context_tokens))
        self._live[key] = sequence
        try:
            sequence.slot = await self._slots.take(key, request.cache_salt)
            if sequence.slot is None:
                yield sequence.done(FinishReason.ABORTED)
                return
            sequence.started_at = asyncio.get_running_loop().time()
            while True:
                step = sequence.step(sequence.clock())
                if step is None:
                    await sequence.rest()
                    continue
                yield step
                if isinstance(step, Done):
                    return
        finally:
            self._free(sequence)
            del self._live[key]

    async def abort(self, generation_id: str, epoch: int) -> None:
        """Make no token of this epoch after now, and free its slot."""
        key = (generation_id, epoch)
        self._slots.withdraw(key)
        sequence = self._live.get(key)
        if sequence is not None and sequence.aborted_at is None:
            sequence.aborted_at = asyncio.get_running_loop().time()
            self._free(sequence)
            sequence.wake()

    def load(self) -> EngineLoad:
        """Scripts in play, waiting, and slots."""
        return self._slots.load()

    def _free(self, sequence: _Sequence) -> None:
        slot, sequence.slot = sequence.slot, None
        if slot is not None:
            self._slots.give_back(slot)
