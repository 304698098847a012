"""Our murmur2 is everybody's: Kafka's Java client, aiokafka, and so Faust."""

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from topics.partition import murmur2, partition_of


@pytest.mark.parametrize(
    ("data", "signed"),
    [  # from the Java client's own test
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_as_the_java_client_hashes(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed & 0xFFFFFFFF


@given(st.binary(max_size=64))
def test_as_aiokafka_hashes(data: bytes) -> None:
    assert murmur2(data) == aiokafka_murmur2(data) & 0xFFFFFFFF


@given(st.text(max_size=40), st.integers(1, 512))
def test_a_key_lives_in_one_partition_of_those_there_are(key: str, partitions: int) -> None:
    found = partition_of(key, partitions)
    assert 0 <= found < partitions
    assert found == (aiokafka_murmur2(key.encode()) & 0x7FFFFFFF) % partitions


def test_keys_spread() -> None:
    counts = [0] * 16
    for number in range(16_000):
        counts[partition_of(f"usr_{number}", 16)] += 1
    assert min(counts) > 800, counts
