"""One turn of a conversation as the tokenizer takes it.

Owns the shape and nothing else: who may write which role is decided at the edge.
"""

import msgspec


class Message(msgspec.Struct, frozen=True):
    """`role` is `user` or `assistant`; `content` is plain text, whatever it looks like."""

    role: str
    content: str
