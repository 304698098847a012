"""Partitions that a record names instead of a key: a reply's, a lane's hint, a partition's own mark.

Owns the one check of those that come from another process and may be wrong: a send to a partition that
does not exist would end the machine, and again at each start.
"""

from collections.abc import Mapping
from typing import Any, Final

from processors import marks
from topics.partition import partition_of
from topics.registry import EDGES, LANES
from topics.topic import Ring

NAMED: Final[Mapping[str, Ring]] = {"reply_partition": EDGES, "route_hint": LANES}
"""Fields of inbox records that hold a partition, and the ring that it belongs to."""


def exist(body: Any, local: bool) -> bool:
    """True where every partition that the body names is one of its ring."""
    return all(
        (place := getattr(body, name, None)) is None or 0 <= place < ring.partitions(local)
        for name, ring in NAMED.items()
    )


def changelog_partition(key: bytes, partitions: int) -> int:
    """Where the record of a table key lies: a mark in the partition it marks, a state by its key."""
    marked = marks.partition_of(key)
    return partition_of(key.decode(), partitions) if marked is None else marked
