"""Decoded states of the keys met last. Owns a bound in bytes; forgetting is always safe.

A decoded state takes several times the memory of its record, so not all of a table may stay decoded.
"""

from typing import Final, Generic

from processors.machine import State
from processors.stored import Stored

RECORD_BYTES_MAX: Final = 64 * 1_048_576
"""Sum of the records whose states are kept decoded."""


class Recent(Generic[State]):
    """The most recently met keys of a table, decoded."""

    def __init__(self, record_bytes_max: int = RECORD_BYTES_MAX) -> None:
        self._record_bytes_max = record_bytes_max
        self._bytes = 0
        self._held: dict[str, tuple[Stored[State], int]] = {}

    def get(self, key: str) -> Stored[State] | None:
        found = self._held.pop(key, None)
        if found is None:
            return None
        self._held[key] = found  # the last of the dict is the one met last
        return found[0]

    def put(self, key: str, stored: Stored[State], record_bytes: int) -> None:
        """Keeps a key whose record takes so many bytes, and drops the oldest beyond the bound."""
        self.drop(key)
        self._held[key] = (stored, record_bytes)
        self._bytes += record_bytes
        while self._bytes > self._record_bytes_max and len(self._held) > 1:
            self.drop(next(iter(self._held)))

    def drop(self, key: str) -> None:
        _, record_bytes = self._held.pop(key, (None, 0))
        self._bytes -= record_bytes

    def clear(self) -> None:
        self._held.clear()
        self._bytes = 0
