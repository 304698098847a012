"""Recovery's choice: which of a key's changelog records is its state. Pure.

Compaction and arrival order mean nothing here. A process that was stopped and goes on can append a record
of its past behind its successor's; the record with the highest seq is the state all the same.
"""


class Rebuild:
    """One changelog partition, fed in the order of its log."""

    def __init__(self) -> None:
        self._kept: dict[bytes, tuple[int, bytes | None]] = {}
        self._late: dict[bytes, int] = {}

    def put(self, key: bytes, value: bytes | None, seq: int | None) -> None:
        """One record. Of equal seqs the later stands: the same event, answered again.

        A record without a value forgets the key; where it tells no seq it outranks all before it.
        """
        before = self._kept.get(key)
        if seq is None:
            seq = 0 if before is None else before[0]
        if before is None or seq >= before[0]:
            self._kept[key] = (seq, value)
            self._late.pop(key, None)
        else:
            self._late[key] = seq

    def table(self) -> dict[bytes, bytes]:
        """Key -> value of all keys that have one."""
        return {key: value for key, (_, value) in self._kept.items() if value is not None}

    def late(self) -> list[tuple[bytes, int]]:
        """Keys whose last record in the log is not their state, with its seq: compaction would keep that
        one, so the owner must put its own behind it."""
        return [*self._late.items()]
