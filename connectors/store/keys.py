"""API keys and the ids beside them. Pure: randomness and time come in; owns their formats."""

import base64
from pathlib import Path
from typing import Final

from ulid import ULID

from topics.ids import keyed_hash

KEY_PREFIX: Final = "mk_"
KEY_RANDOM_BYTES: Final = 24
ULID_RANDOM_BYTES: Final = 10
SECRET_BYTES: Final = 32


def mint(random: bytes) -> str:
    """`mk_` and 32 URL-safe characters, from 24 random bytes."""
    if len(random) != KEY_RANDOM_BYTES:
        raise ValueError(f"a key takes {KEY_RANDOM_BYTES} random bytes")
    return KEY_PREFIX + base64.urlsafe_b64encode(random).decode()


def hash_key(secret: bytes, key: str) -> bytes:
    """What is stored of a key; useless without the secret."""
    return keyed_hash(secret, "key", key)


def mint_id(prefix: str, at_ms: int, random: bytes) -> str:
    """`<prefix>_<ULID>`, e.g. `usr_…`, `key_…`, `gen_…`, from 10 random bytes."""
    if len(random) != ULID_RANDOM_BYTES:
        raise ValueError(f"an id takes {ULID_RANDOM_BYTES} random bytes")
    return f"{prefix}_{ULID(at_ms.to_bytes(6, 'big') + random)}"


def read_secret(path: Path) -> bytes:
    """The secret of keyed hashes: 32 bytes, in hex in its file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not 32 bytes in hex.
    """
    secret = bytes.fromhex(path.read_text("ascii").strip())
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"the secret must be {SECRET_BYTES} bytes in hex")
    return secret
