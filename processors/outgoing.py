"""A record ready to be sent: bytes, topic, partition. Owns the step from a fold's output to the wire."""

import msgspec

from processors.machine import Output
from topics import wire
from topics.partition import partition_of


class Outgoing(msgspec.Struct, frozen=True, array_like=True):
    """One record as it goes out, and as it is kept to go out again."""

    topic: str
    partition: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def outgoing(output: Output, local: bool) -> Outgoing:
    """Encodes a stamped output; its key decides the partition unless the fold did."""
    partition = output.partition
    if partition is None:
        partition = partition_of(output.key, output.topic.ring.partitions(local))
    return Outgoing(output.topic.name, partition, output.key.encode(), wire.encode(output.value))
