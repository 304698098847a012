"""Which model a request gets and how much of it: aliases, tiers, token bounds.

Owns resolution and counting. Loads no weights; a tokenizer is loaded once, before serving.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Final

import msgspec

from connectors.tokens import Message, Tokenizer, tokenizer_for
from edge.errors import ApiError, ErrorCode, invalid
from edge.settings import EdgeSettings
from edge.strict_json import shown_name
from schemas.generated.types import Tier
from topics.models import MODELS, SCRIPTED, Model

SHORT_CHARS_MAX: Final = 8_192
"""Texts up to this are counted at once; longer ones on a thread, beside the streams."""


class Measure(msgspec.Struct, frozen=True):
    """Tokens of one request."""

    input_tokens: int
    output_tokens_max: int


class Models:
    """The models this edge offers."""

    def __init__(self, settings: EdgeSettings, threads: Executor, scripted: bool) -> None:
        self._offered: Mapping[str, Model] = {
            model.alias: model for model in MODELS if scripted or model is not SCRIPTED
        }
        self._allowed = {tier: settings.models_of(tier.value) for tier in Tier}
        self._output_default = settings.output_tokens_default
        self._threads = threads

    def load(self) -> None:
        """Loads every tokenizer; a missing one is found here and not by the first request."""
        for family in {model.tokenizer_family for model in self._offered.values()}:
            tokenizer_for(family)

    def resolve(self, alias: str, tier: Tier) -> Model:
        """
        Raises:
            ApiError: invalid_request for an unknown alias, model_not_allowed by the tier.
        """
        model = self._offered.get(alias)
        if model is None:
            known = ", ".join(sorted(self._offered))
            raise invalid("model", f"{shown_name(alias)} is not offered; there are {known}")
        allowed = self._allowed[tier]
        if allowed and alias not in allowed:
            raise ApiError(ErrorCode.MODEL_NOT_ALLOWED, details={"allowed": sorted(allowed)})
        return model

    def check_output(self, model: Model, wanted: int | None) -> int:
        """The asked bound of output tokens, or the default.

        Raises:
            ApiError: more than any prompt leaves room for.
        """
        most = min(model.output_tokens_max, model.context_tokens_max - 1)
        if wanted is not None and wanted > most:
            raise invalid(
                "max_output_tokens",
                f"expected at most {most} for {model.alias}",
                output_tokens_max=most,
            )
        return min(self._output_default, most) if wanted is None else wanted

    async def measure(self, model: Model, turns: list[Message], wanted: int | None) -> Measure:
        """Counts the prompt. An output bound larger than the rest of the context is cut to it.

        Raises:
            ApiError: invalid_request with both numbers where the prompt leaves no room.
        """
        output = self.check_output(model, wanted)
        tokenizer = tokenizer_for(model.tokenizer_family)
        if sum(len(turn.content) for turn in turns) <= SHORT_CHARS_MAX:
            count = tokenizer.count_prompt(turns)
        else:
            loop = asyncio.get_running_loop()
            count = await loop.run_in_executor(self._threads, _count, tokenizer, turns)
        room = model.context_tokens_max - count
        if room < 1:
            raise invalid(
                "messages",
                f"{count} tokens leave no room in the context of {model.context_tokens_max}; "
                "shorten them",
                context_tokens_max=model.context_tokens_max,
                input_tokens=count,
            )
        return Measure(count, min(output, room))


def _count(tokenizer: Tokenizer, turns: list[Message]) -> int:
    return tokenizer.count_prompt(turns)
