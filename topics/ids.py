"""Derived identities. Random ones are minted in the shells and come in as arguments."""

import hmac
import uuid
from hashlib import sha1, sha256
from typing import Final

OUTPUT_NAMESPACE: Final = uuid.UUID("6d696c65-6e61-5e00-8000-000000000001")
_VERSION_AND_VARIANT: Final = (0xF000 << 64) | (0xC000 << 48)
_VERSION_5: Final = (0x5000 << 64) | (0x8000 << 48)


def output_id(event_id: str, kind: str, index: int) -> str:
    """Identity of the index-th output of one event (rule F5): the same however often it is made."""
    digest = sha1(OUTPUT_NAMESPACE.bytes + f"{event_id}/{kind}/{index}".encode()).digest()  # noqa: S324
    # uuid5 by hand: the library's way there, through a UUID and back, takes three times as long.
    bits = int.from_bytes(digest[:16], "big") & ~_VERSION_AND_VARIANT | _VERSION_5
    text = f"{bits:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def keyed_hash(secret: bytes, *parts: str | bytes) -> bytes:
    """16 bytes of HMAC-SHA256 over length-prefixed parts; a guess needs the secret."""
    mac = hmac.new(secret, digestmod=sha256)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        mac.update(len(raw).to_bytes(8, "big"))
        mac.update(raw)
    return mac.digest()[:16]
