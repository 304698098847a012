"""The prompt of one request: the stored turns, tokenized for the engine's model.

Owns the one call between a payload and an engine; what else belongs into a context (summaries,
memories, files) will be laid out here. It reads no store.
"""

from collections.abc import Sequence

from connectors.tokens import Message, tokenizer_for
from inference.engines.base import Prompt


def build_prompt(family: str, messages: Sequence[Message]) -> Prompt:
    """Token ids with our system turn first, then the turns, then the head of the answer.

    Long prompts take tens of milliseconds: call it in a thread. Raises KeyError for an unknown
    family, ValueError for text that has no tokens.
    """
    return Prompt(
        token_ids=tuple(tokenizer_for(family).encode_prompt(messages)), messages=tuple(messages)
    )
