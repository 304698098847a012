"""Keyed hashes of a request: who asks again, and whether it is the same question. Pure.

A fingerprint covers what the answer depends on and nothing else; it never shows the text.
"""

import msgspec

from edge.request import GenerationRequest
from topics.ids import keyed_hash


class Identity(msgspec.Struct, frozen=True):
    """`identity` and `fingerprint`: 16 bytes each. `runs_key`: the key of the run's events."""

    identity: bytes
    fingerprint: bytes
    runs_key: str


def identify(secret: bytes, user_id: str, key: str, request: GenerationRequest) -> Identity:
    """The same key and question give the same three values, in any order and spelling of JSON."""
    return Identity(
        keyed_hash(secret, "identity", user_id, key),
        keyed_hash(secret, "fingerprint", canonical(request)),
        runs_key(secret, user_id, key),
    )


def runs_key(secret: bytes, user_id: str, key: str) -> str:
    return "run_" + keyed_hash(secret, "run", user_id, key).hex()


def canonical(request: GenerationRequest) -> bytes:
    """The semantic inputs in one fixed order. `stream` only says how the answer is carried."""
    return msgspec.json.encode(
        [
            request.model,
            [(turn.role, turn.content) for turn in request.messages],
            request.tokens_wanted(),
            request.temperature,
            request.top_p,
            request.seed_wanted(),
            request.stops,
            request.wanted_fallback,
        ]
    )


def payload_body(request: GenerationRequest) -> bytes:
    """The private part that store and Redis keep for the worker."""
    return msgspec.json.encode(
        {
            "messages": [{"role": turn.role, "content": turn.content} for turn in request.messages],
            "stop": list(request.stops),
        }
    )
