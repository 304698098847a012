"""Which epochs of one generation were told. Owns the shape; decides nothing."""

from typing import Final

import msgspec

from topics.topic import HOUR_MS

RETAINED_MS: Final = 24 * HOUR_MS
"""How long a repeat is recognised after the last epoch."""


class Meter(msgspec.Struct, frozen=True, array_like=True):
    """One generation. `told` holds marks of epoch and incarnation; `last_ms` is an append time."""

    told: tuple[bytes, ...]
    last_ms: int

    @property
    def forget_at_ms(self) -> int:
        return self.last_ms + RETAINED_MS
