"""The text of a request, from Redis or the store, made into an engine's request.

Owns the way from a step's ids to a prompt. It logs nothing of what it reads.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from connectors.errors import RedisAway, RedisFull, RedisRefused, StoreUnavailable
from connectors.tokens import Message
from inference.context.prompt import build_prompt
from inference.engines.base import EngineRequest, Sampling
from schemas.generated.types import StepRequest

Fetch = Callable[[str], Awaitable[bytes | None]]
"""Generation id -> the stored JSON body, None where it is not there."""

THREAD_FROM_CHARACTERS: Final = 4_000
"""Longer prompts are tokenized in a thread, so that other answers go on."""
_PAUSE_S: Final = (0.05, 0.1, 0.2, 0.4)


class Payload(msgspec.Struct, frozen=True):
    """The body an edge wrote: private text."""

    messages: tuple[Message, ...]
    stop: tuple[str, ...] = ()


_DECODER: Final = msgspec.json.Decoder(Payload)


class Payloads:
    """Reads bodies: `near` (Redis) first, then `kept` (the store)."""

    def __init__(self, near: Fetch, kept: Fetch, clock: Callable[[], float]) -> None:
        self._near = near
        self._kept = kept
        self._clock = clock

    async def load(self, generation_id: str, wait_s: float) -> Payload | None:
        """The payload; None where both are there and neither has it, where it cannot be read, or
        where one was away for `wait_s`."""
        until_s = self._clock() + wait_s
        tries = 0
        while True:
            body, certain = await self._look(generation_id)
            if body is not None:
                try:
                    return _DECODER.decode(body)
                except msgspec.MsgspecError:
                    return None
            if certain or self._clock() >= until_s:
                return None
            await asyncio.sleep(_PAUSE_S[min(tries, len(_PAUSE_S) - 1)])
            tries += 1

    async def _look(self, generation_id: str) -> tuple[bytes | None, bool]:
        """The body, and whether its absence is certain."""
        certain = True
        try:
            body = await self._near(generation_id)
            if body is not None:
                return body, True
        except (RedisAway, RedisFull, RedisRefused):
            certain = False
        try:
            return await self._kept(generation_id), certain
        except StoreUnavailable:
            return None, False


async def engine_request(family: str, step: StepRequest, payload: Payload) -> EngineRequest:
    """What the engine computes.

    Raises:
        ValueError: text without tokens, or sampling no engine can use.
    """
    spec = step.spec
    if sum(len(message.content) for message in payload.messages) < THREAD_FROM_CHARACTERS:
        prompt = build_prompt(family, payload.messages)
    else:
        prompt = await asyncio.to_thread(build_prompt, family, payload.messages)
    return EngineRequest(
        generation_id=spec.generation_id,
        epoch=step.epoch,
        prompt=prompt,
        output_tokens_max=spec.output_tokens_max,
        sampling=Sampling(
            temperature=spec.temperature, top_p=spec.top_p, seed=spec.seed, stop=payload.stop
        ),
        cache_salt=spec.conversation_id,
    )
