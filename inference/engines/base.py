"""What every engine promises: one small protocol for llama.cpp, the scripted engine and vLLM.

Owns the words an engine and its worker share: a request, its deltas, its one end, its load and
its errors. It computes nothing and knows no engine, no topic and no stream.
"""

import math
from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Protocol, runtime_checkable

import msgspec

from connectors.tokens import Message

TEMPERATURE_DEFAULT = 0.7
"""Used where a request names no temperature: small models ramble at 1.0."""

TEMPERATURE_GREEDY_BELOW = 0.01
"""A temperature under this is greedy sampling in every engine: logits over it would overflow."""

STOP_STRINGS_MAX = 8
STOP_STRING_CHARACTERS_MAX = 256


class FinishReason(StrEnum):
    """Why an engine made no more tokens."""

    STOP = "stop"  # the model ended its turn, or a stop string was met
    LENGTH = "length"  # `output_tokens_max` or the model's context was reached
    ABORTED = "aborted"  # `abort` was called before any other end


class EngineErrorKind(StrEnum):
    """The classes of engine failure, told apart once, here."""

    TOO_LONG = "too_long"  # the prompt leaves no room for an output token; never retry
    OUT_OF_MEMORY = "out_of_memory"  # no memory for this sequence now
    ENGINE_DEAD = "engine_dead"  # the engine serves nobody any more: end the process
    BACKEND_ERROR = "backend_error"  # this request failed, others go on


class EngineError(Exception):
    """A generation that failed inside an engine.

    The message holds counts and class names only, never text of a prompt or an answer, so it may
    be logged.
    """

    def __init__(self, kind: EngineErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Sampling(msgspec.Struct, frozen=True):
    """How the next token is chosen.

    `temperature` 0 to 2, greedy under `TEMPERATURE_GREEDY_BELOW`; `top_p` in (0, 1];
    `seed` 0 to 2**63 - 1, or None for a fresh one per request (an engine may use its low 32 bits);
    `stop`: strings that end the answer and are never shown; what may become one is held back.
    Raises ValueError for anything no sampler can use; the edge refuses such values first.
    """

    temperature: float = TEMPERATURE_DEFAULT
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and 0.0 <= self.temperature <= 2.0):
            raise ValueError("temperature must be from 0 to 2")
        if not (math.isfinite(self.top_p) and 0.0 < self.top_p <= 1.0):
            raise ValueError("top_p must be over 0 and at most 1")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise ValueError("seed must be from 0 to 2**63 - 1")
        if len(self.stop) > STOP_STRINGS_MAX:
            raise ValueError(f"at most {STOP_STRINGS_MAX} stop strings")
        if any(not 0 < len(stop) <= STOP_STRING_CHARACTERS_MAX for stop in self.stop):
            raise ValueError(f"a stop string has 1 to {STOP_STRING_CHARACTERS_MAX} characters")

    @property
    def greedy(self) -> bool:
        """True if the most likely token is always taken."""
        return self.temperature < TEMPERATURE_GREEDY_BELOW


class Prompt(msgspec.Struct, frozen=True):
    """What is computed on: the token ids, and the turns they were made from.

    `token_ids` is the whole prompt with the model's own marks, its length is the input tokens.
    `messages` are the client's turns; only the scripted engine reads them.
    """

    token_ids: tuple[int, ...]
    messages: tuple[Message, ...] = ()


class EngineRequest(msgspec.Struct, frozen=True):
    """One computing epoch of one generation.

    `output_tokens_max` counts every token the model makes, its end mark included; at least 1.
    `cache_salt` keeps prefix caches apart: equal prefixes are shared only under the same salt, and
    under None they are never shared.
    """

    generation_id: str
    epoch: int
    prompt: Prompt
    output_tokens_max: int
    sampling: Sampling = Sampling()
    cache_salt: str | None = None

    def __post_init__(self) -> None:
        if self.output_tokens_max < 1:
            raise ValueError("output_tokens_max must be at least 1")
        if not self.prompt.token_ids:
            raise ValueError("a prompt has at least one token")

    def output_tokens_room(self, context_tokens: int) -> int:
        """Output tokens that fit: `output_tokens_max`, or less where the context ends first.

        Raises EngineError (`too_long`) where not one fits.
        """
        room = context_tokens - len(self.prompt.token_ids)
        if room < 1:
            raise EngineError(
                EngineErrorKind.TOO_LONG,
                f"{len(self.prompt.token_ids)} input tokens leave no room in a context of "
                f"{context_tokens}",
            )
        return min(self.output_tokens_max, room)


class Delta(msgspec.Struct, frozen=True):
    """New visible text. `text` never ends inside a character and never holds a stop string; it is
    empty where tokens were made that show nothing (yet). `tokens` are the output tokens made since
    the last delta: together they never exceed `Done.output_tokens`."""

    text: str
    tokens: int


class Done(msgspec.Struct, frozen=True):
    """The one end of a generation that did not fail. Usage is true after an abort too: output
    tokens are those made, shown or not (held back, cut, end marks); input tokens are the whole
    prompt once its compute began, and 0 where it never did."""

    reason: FinishReason
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int


class EngineLoad(msgspec.Struct, frozen=True):
    """Sequences in the engine at this moment: computing, waiting for a slot, and the slots."""

    running: int
    waiting: int
    slots: int


@runtime_checkable
class Engine(Protocol):
    """One model in one process. All calls are made from one asyncio loop, none blocks it."""

    @property
    def family(self) -> str:
        """The tokenizer family (`connectors.tokens.tokenizer_for`) of the model."""

    @property
    def context_tokens(self) -> int:
        """Most tokens of one sequence, prompt and output together."""

    async def start(self) -> None:
        """Load the model and make the first token fast. Raises EngineError (`engine_dead`)."""

    async def close(self) -> None:
        """Abort what runs, then free everything. Safe to call twice."""

    def generate(self, request: EngineRequest) -> AsyncGenerator[Delta | Done, None]:
        """Yield deltas, then exactly one Done and nothing more; or raise EngineError.

        Compute starts at the first step of the iterator. Closing or cancelling it aborts, and
        returns when the engine has stopped computing. A (generation, epoch) runs at most once at
        a time: ValueError. Too long a prompt raises EngineError (`too_long`) and computes nothing.
        """

    async def abort(self, generation_id: str, epoch: int) -> None:
        """Stop one sequence; return when the engine computes it no more and its slot is free.

        Its iterator still yields the text that was whole, then Done with reason `aborted` and true
        usage (or the end that came first). An unknown or ended sequence is no error.
        """

    def load(self) -> EngineLoad:
        """The load at this moment; costs nothing."""
