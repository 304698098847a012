"""The store: what must outlive Redis. Owns tables, typed rows and their clients.

`Store` is the contract; `CqlStore` speaks to ScyllaDB or Apache Cassandra with the same statements,
`MemoryStore` is its twin for tests. Nothing here decides; rows that epochs compete for carry
explicit timestamps, so the order of arrival never matters.
"""

from connectors.store.rows import Key, Payload, Result, ResultStatus, RowPhase, row_timestamp
from connectors.store.store import Store

__all__ = [
    "Key",
    "Payload",
    "Result",
    "ResultStatus",
    "RowPhase",
    "Store",
    "row_timestamp",
]
