"""What the folded log tells, and what of it was found in the topics. Owns one private file of the disk.

A log is larger than memory, so both sides meet in a temporary database that is gone at the end. An output
may be told in several ways under one id (a repeated refusal tells the wait from its own time): each
way that a fold made is right, and each must be found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

BATCH_MAX: Final = 2_000

_TABLES: Final = """
CREATE TABLE told (
  machine TEXT, source INTEGER, at INTEGER, append_ms INTEGER, required INTEGER,
  id TEXT, topic TEXT, partition INTEGER, key TEXT, value BLOB, found INTEGER DEFAULT 0,
  UNIQUE (id, topic, value)
);
CREATE TABLE tokens (generation TEXT, leg TEXT, user TEXT, input INTEGER, cached INTEGER,
  output INTEGER, PRIMARY KEY (generation, leg)) WITHOUT ROWID;
"""
_TELL: Final = """
INSERT INTO told (machine, source, at, append_ms, required, id, topic, partition, key, value)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET required = max(required, excluded.required)
"""


class Told(NamedTuple):
    """One output of a fold. `source` and `at` are the inbox partition and offset of its event."""

    machine: str
    source: int
    at: int
    append_ms: int
    required: bool
    """It must be in its topic; otherwise it only may."""
    id: str
    topic: str
    partition: int
    key: str
    value: bytes
    """msgpack; empty for a dead letter."""


class Tokens(NamedTuple):
    """A generation's tokens as one of the parties tells them."""

    generation: str
    leg: str
    user: str
    input: int
    cached: int
    output: int


class Ledger:
    """Tell everything first, then find."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("")  # a file of its own, unlinked by SQLite itself
        self._db.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;{_TABLES}")
        self._waiting: list[Told] = []

    def close(self) -> None:
        self._db.close()

    def tell(self, told: Told) -> None:
        self._waiting.append(told)
        if len(self._waiting) >= BATCH_MAX:
            self._write()

    def find(
        self, id_: str, topic: str, partition: int, key: str, value: bytes
    ) -> tuple[bool, Told | None]:
        """(right, one way in which it was told). Right: told exactly so, and now found."""
        self._write()
        rows = self._db.execute(
            "SELECT rowid, machine, source, at, append_ms, required, id, topic, partition, key, value"
            " FROM told WHERE id = ? AND topic = ?",
            (id_, topic),
        ).fetchall()
        for rowid, *fields in rows:
            told = Told(*fields)
            if (told.partition, told.key, told.value) == (partition, key, value):
                self._db.execute("UPDATE told SET found = found + 1 WHERE rowid = ?", (rowid,))
                return True, told
        return False, Told(*rows[0][1:]) if rows else None

    def times_found(self, id_: str, topic: str) -> int:
        """How often an output was found so far, in any of its ways."""
        row = self._db.execute(
            "SELECT coalesce(sum(found), 0) FROM told WHERE id = ? AND topic = ?", (id_, topic)
        ).fetchone()
        return int(row[0])

    def missing(self) -> Iterator[Told]:
        """What must be there and was not found, in the order of each inbox."""
        self._write()
        rows = self._db.execute(
            "SELECT machine, source, at, append_ms, required, id, topic, partition, key, value"
            " FROM told WHERE required AND NOT found ORDER BY append_ms, machine, source, at"
        )
        return (Told(*row) for row in rows)

    def counts(self, machine: str) -> tuple[int, int]:
        """(outputs that must be there, of these found)."""
        self._write()
        row = self._db.execute(
            "SELECT count(*), coalesce(sum(found > 0), 0) FROM told WHERE required AND machine = ?",
            (machine,),
        ).fetchone()
        return int(row[0]), int(row[1])

    def add_tokens(self, tokens: Tokens) -> None:
        """Sums where one leg tells more than once."""
        self._db.execute(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET"
            " input = input + excluded.input, cached = cached + excluded.cached,"
            " output = output + excluded.output",
            tokens,
        )

    def tokens(self) -> Iterator[dict[str, Tokens]]:
        """Each generation's legs by name."""
        legs: dict[str, Tokens] = {}
        for row in self._db.execute("SELECT * FROM tokens ORDER BY generation, leg"):
            tokens = Tokens(*row)
            if legs and tokens.generation != next(iter(legs.values())).generation:
                yield legs
                legs = {}
            legs[tokens.leg] = tokens
        if legs:
            yield legs

    def _write(self) -> None:
        if self._waiting:
            rows: list[Any] = self._waiting
            self._db.executemany(_TELL, rows)
            self._waiting = []
