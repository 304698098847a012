"""What every tokenizer family promises, and the turn it takes.

Owns the shapes and nothing else: who may write which role is decided at the edge.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Message(msgspec.Struct, frozen=True):
    """`role` is `user` or `assistant`; `content` is plain text, whatever it looks like.

    Lone surrogates are no text: tokenizers raise ValueError for them, the edge refuses them first.
    """

    role: str
    content: str


class Tokenizer(Protocol):
    """Counts and prompts of one model family, equal to what its engines compute on.

    Pure and thread-safe. A megabyte of text takes up to a second, with the interpreter lock
    released: callers on an event loop run long texts in a thread.
    """

    @property
    def family(self) -> str:
        """The name `tokenizer_for` knows it by."""

    def count_text(self, text: str) -> int:
        """Tokens of bare text, without any mark around it."""

    def count_message(self, message: Message) -> int:
        """What one more turn adds to a prompt, its marks included."""

    def count_prompt(self, messages: Sequence[Message]) -> int:
        """Tokens of the whole prompt, at least 1: what the engine reports as input tokens."""

    def encode_prompt(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the whole prompt, `count_prompt` many: our system turn, the turns in
        their order, and the head of the answer. No text becomes a control token."""
