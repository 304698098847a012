"""Which partition a key lives in: Kafka's murmur2, computed by us so that every client agrees.

Clients disagree by default (librdkafka hashes with CRC32), so none of our producers may choose.
"""

from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32-bit murmur2 as the Java client computes it, unsigned."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little")
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    rest = data[whole:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    h ^= h >> 15
    return h


def partition_of(key: str, partitions: int) -> int:
    """Partition of a key among `partitions`, the same for every process and client."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % partitions
