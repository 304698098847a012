"""One tokenizer for edge and worker: counts and prompts that equal the engine's own.

Owns the way from messages to token ids, per model family. It never talks to a model, a store or
a topic, and it never reads what a message says.
"""

from functools import lru_cache

from connectors.tokens.message import Message, Tokenizer
from connectors.tokens.words import WordTokenizer

FAMILIES = ("smollm2", "scripted")

__all__ = ["FAMILIES", "Message", "Tokenizer", "tokenizer_for"]


@lru_cache(maxsize=len(FAMILIES))
def tokenizer_for(family: str) -> Tokenizer:
    """The one tokenizer of a model family in this process, loaded at the first call.

    Raises KeyError for an unknown family, FileNotFoundError where its model is not installed.
    """
    if family == "smollm2":
        # Not at the top: a worker of another family needs neither the library nor the file.
        from connectors.tokens.chatml import load_smollm2

        return load_smollm2()
    if family == "scripted":
        return WordTokenizer()
    raise KeyError(f"no tokenizer family {family!r}")
