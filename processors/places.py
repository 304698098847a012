"""Partitions that a record names instead of a key: where a reply goes, and a hint for a lane.

Owns the one check of them. Such a number comes from another process and may be wrong; a send to a
partition that does not exist would end the machine, and again at each start.
"""

from collections.abc import Mapping
from typing import Any, Final

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
