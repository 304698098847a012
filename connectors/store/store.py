"""The contract of every store. Each call has a deadline and may be repeated."""

from typing import Protocol

from connectors.store.rows import Key, Payload, Result, RowPhase


class Store(Protocol):
    """Every call raises StoreUnavailable where no answer came in time; a write's outcome is then
    unknown and the same write is harmless again. A row over TEXT_BYTES_MAX raises RowTooLarge."""

    async def put_payload(self, row: Payload) -> None:
        """Keeps a request's body for `payloads_ttl_s`."""

    async def payload(self, generation_id: str) -> Payload | None: ...

    async def put_result(self, row: Result, phase: RowPhase) -> None:
        """Writes the whole row for `results_ttl_s`; it shows unless a higher (epoch, phase) of the
        same admission is there. Two different rows never share (admission, epoch, phase)."""

    async def result(self, generation_id: str) -> Result | None: ...

    async def put_key(self, row: Key) -> None:
        """Creates or replaces a key."""

    async def key(self, key_hash: bytes) -> Key | None:
        """The key with this hash, also a revoked one."""

    async def keys(self) -> list[Key]:
        """All keys, 1,000 at most, for operators; never on a request's path."""

    async def close(self) -> None: ...
