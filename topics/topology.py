"""Whether a broker's topics are those of the registry. Asked by every process before it starts.

A missing topic or another partition count is fatal: keys would live elsewhere, or nothing would
arrive and nobody would say so.
"""

from collections.abc import Iterable, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from topics.errors import TopologyError
from topics.topic import Topic


def complaints(found: Mapping[str, int], expected: Iterable[Topic], local: bool) -> list[str]:
    """One line per topic that differs. `found` is topic name -> partition count."""
    lines = []
    for topic in expected:
        count, wanted = found.get(topic.name), topic.ring.partitions(local)
        if count is None:
            lines.append(f"topic {topic.name} is missing; run `milena topics apply`")
        elif count != wanted:
            lines.append(
                f"topic {topic.name} has {count} partitions, expected {wanted}; "
                "a partition count is never changed in place, see `milena topics list`"
            )
    return lines


def require(found: Mapping[str, int], expected: Iterable[Topic], local: bool) -> None:
    """Refuses to go on with a broker that differs.

    Raises:
        TopologyError: naming each topic, found, expected and the next step.
    """
    lines = complaints(found, expected, local)
    if lines:
        raise TopologyError("; ".join(lines))


def check(bootstrap: str, expected: Iterable[Topic], local: bool) -> None:
    """Asks the broker, blocking for 10 s at most.

    Raises:
        TopologyError: the broker does not answer, or a topic differs.
    """
    try:
        listed = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(
            timeout=10
        )
    except KafkaException as error:
        raise TopologyError(f"no broker at {bootstrap}; see `milena status`") from error
    require({name: len(meta.partitions) for name, meta in listed.topics.items()}, expected, local)


def id_of(client: AdminClient, name: str, s_max: float) -> str | None:
    """Kafka's id of the topic of a name, base64 text: another one under the same name is another topic.
    None where there is none.

    Raises:
        KafkaException: the broker does not tell within `s_max` seconds.
    """
    asked = client.describe_topics(TopicCollection([name]), request_timeout=s_max)
    try:
        return str(asked[name].result(s_max).topic_id)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise


def topic_id(bootstrap: str, topic: Topic) -> str:
    """The id of a declared topic. Blocks for 10 s at most.

    Raises:
        TopologyError: it is missing, or the broker does not tell.
    """
    try:
        found = id_of(AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}), topic.name, 10)
    except KafkaException as error:
        raise TopologyError(f"topic {topic.name} cannot be described: {error}") from error
    if found is None:
        raise TopologyError(f"topic {topic.name} is missing; run `milena topics apply`")
    return found
