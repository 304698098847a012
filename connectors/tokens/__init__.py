"""One tokenizer for edge and worker: counts and prompts that equal the engine's own.

Owns the way from messages to token ids, per model family. It never talks to a model, a store or
a topic, and it never reads what a message says.
"""

from connectors.tokens.message import Message

__all__ = ["Message"]
