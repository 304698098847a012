"""Derived identities. Random ones are minted in the shells and come in as arguments."""

import hmac
import uuid
from hashlib import sha256
from typing import Final

OUTPUT_NAMESPACE: Final = uuid.UUID("6d696c65-6e61-5e00-8000-000000000001")


def output_id(event_id: str, kind: str, index: int) -> str:
    """Identity of the index-th output of one event (rule F5): the same however often it is made."""
    return str(uuid.uuid5(OUTPUT_NAMESPACE, f"{event_id}/{kind}/{index}"))


def keyed_hash(secret: bytes, *parts: str | bytes) -> bytes:
    """16 bytes of HMAC-SHA256 over length-prefixed parts; a guess needs the secret."""
    mac = hmac.new(secret, digestmod=sha256)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        mac.update(len(raw).to_bytes(8, "big"))
        mac.update(raw)
    return mac.digest()[:16]
