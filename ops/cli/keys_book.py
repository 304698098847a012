"""API keys as an operator handles them, over any store. Time and randomness come in.

Owns what a new key consists of, what revoking means, and the local stack's file of keys. Never
prints; the only places a whole key exists are the caller's answer and that file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from connectors.store.keys import KEY_RANDOM_BYTES, ULID_RANDOM_BYTES, hash_key, mint, mint_id
from connectors.store.rows import Key
from connectors.store.store import Store
from ops.stack.files import write_atomically
from schemas.generated.types import Tier

Random = Callable[[int], bytes]
LOCAL_TIERS: Final = (Tier.FREE, Tier.PAID, Tier.OPERATOR)


def new_row(
    key: str, secret: bytes, tier: Tier, name: str, at_ms: int, random: Random, user_id: str = ""
) -> Key:
    """The row of a key, of a new user unless one is named."""
    return Key(
        key_hash=hash_key(secret, key),
        key_id=mint_id("key", at_ms, random(ULID_RANDOM_BYTES)),
        user_id=user_id or mint_id("usr", at_ms, random(ULID_RANDOM_BYTES)),
        tier=tier,
        name=name,
        created_at_ms=at_ms,
    )


def new_key(random: Random) -> str:
    return mint(random(KEY_RANDOM_BYTES))


async def revoke(store: Store, key_id: str, at_ms: int) -> Key | None:
    """The revoked row, or None where there is no such key. A second time changes nothing."""
    found = next((row for row in await store.keys() if row.key_id == key_id), None)
    if found is None or found.revoked_at_ms is not None:
        return found
    revoked = msgspec.structs.replace(found, revoked_at_ms=at_ms)
    await store.put_key(revoked)
    return revoked


async def seed(store: Store, secret: bytes, path: Path, at_ms: int, random: Random) -> list[Tier]:
    """Makes the local stack's file of keys once, and their rows where the store lacks them.

    Returns the tiers whose row was written now. The file comes first: after a crash between the
    two, the next seeding writes the rows of the keys that somebody may already use.

    Raises:
        OSError: the file cannot be read or written.
        ValueError: the file is not one of ours.
    """
    keys = _read(path)
    if any(tier not in keys for tier in LOCAL_TIERS):
        keys = {tier: keys.get(tier) or new_key(random) for tier in LOCAL_TIERS}
        document = {tier.value: keys[tier] for tier in LOCAL_TIERS}
        write_atomically(path, msgspec.json.encode(document).decode() + "\n", mode=0o600)
    written = []
    for tier in LOCAL_TIERS:
        if await store.key(hash_key(secret, keys[tier])) is None:
            row = new_row(keys[tier], secret, tier, f"local {tier.value}", at_ms, random)
            await store.put_key(row)
            written.append(tier)
    return written


def _read(path: Path) -> dict[Tier, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[Tier, str])
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is not a file of keys: move it away") from error
