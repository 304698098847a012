"""Every statement of the store. Owns all CQL that reads or writes rows.

INSERTs are made from the row types, so none can forget a column. `{keyspace}` is filled in when a
statement is prepared: a prepared statement must not depend on the session's keyspace.
"""

from typing import Final

import msgspec

from connectors.store.rows import Key, Payload, Result

KEYS_LISTED_MAX: Final = 1_000


def columns(row: type[msgspec.Struct]) -> tuple[str, ...]:
    """Columns of a row type, in the order in which `values` gives them."""
    return tuple(field.name for field in msgspec.structs.fields(row))


def values(row: msgspec.Struct) -> tuple[object, ...]:
    """Values to bind for a whole row."""
    return tuple(msgspec.to_builtins(row, builtin_types=(bytes,)).values())


def _insert(table: str, row: type[msgspec.Struct], using: str) -> str:
    names = columns(row)
    marks = ", ".join("?" for _ in names)
    return f"INSERT INTO {{keyspace}}.{table} ({', '.join(names)}) VALUES ({marks}){using}"  # noqa: S608


def _select(table: str, row: type[msgspec.Struct], rest: str) -> str:
    return f"SELECT {', '.join(columns(row))} FROM {{keyspace}}.{table} {rest}"  # noqa: S608


INSERT_PAYLOAD: Final = _insert("payloads", Payload, " USING TTL ?")
INSERT_RESULT: Final = _insert("results", Result, " USING TIMESTAMP ? AND TTL ?")
INSERT_KEY: Final = _insert("keys", Key, "")
SELECT_PAYLOAD: Final = _select("payloads", Payload, "WHERE generation_id = ?")
SELECT_RESULT: Final = _select("results", Result, "WHERE generation_id = ?")
SELECT_KEY: Final = _select("keys", Key, "WHERE key_hash = ?")
SELECT_KEYS: Final = _select("keys", Key, f"LIMIT {KEYS_LISTED_MAX}")

ALL: Final = (
    INSERT_PAYLOAD,
    INSERT_RESULT,
    INSERT_KEY,
    SELECT_PAYLOAD,
    SELECT_RESULT,
    SELECT_KEY,
    SELECT_KEYS,
)
