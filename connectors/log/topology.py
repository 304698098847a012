"""Asks the broker for its topics and refuses to go on where they differ from the registry."""

from collections.abc import Iterable

from confluent_kafka.admin import AdminClient

from topics.topic import Topic
from topics.topology import require


def check_topics(bootstrap: str, expected: Iterable[Topic], local: bool) -> None:
    """Blocking, 10 s at most; for start-up.

    Raises:
        TopologyError: naming each topic, found, expected and the next step.
    """
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    listed = client.list_topics(timeout=10)
    require({name: len(meta.partitions) for name, meta in listed.topics.items()}, expected, local)
