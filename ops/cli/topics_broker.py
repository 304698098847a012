"""Reads and changes a broker's topics. Owns the admin client; decides nothing.

Every call has a deadline. It creates topics and sets their configuration and can do nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from ops.cli.console import CommandError, unreachable
from ops.cli.topics_plan import Found, Setting, replicas, settings
from topics.topic import Topic

METADATA_S_MAX = 8.0
CHANGE_S_MAX = 30.0


class Broker:
    """One broker or cluster, by its bootstrap address."""

    def __init__(self, bootstrap: str, local: bool) -> None:
        self._bootstrap = bootstrap
        self._local = local
        self._client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def listed(self) -> dict[str, Any]:
        """Metadata of every topic by name: the quickest way to see that a broker is there.

        Raises:
            CommandError: no answer in time.
        """
        try:
            return dict(self._client.list_topics(timeout=METADATA_S_MAX).topics)
        except KafkaException as error:
            raise unreachable("Kafka", self._bootstrap) from error

    def found(self) -> dict[str, Found]:
        """Every topic but the broker's own, by name.

        Raises:
            CommandError: no answer in time.
        """
        listed = self.listed()
        names = [name for name in listed if not name.startswith("__")]
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        config: dict[str, Mapping[str, str]] = {}
        if resources:
            futures = self._client.describe_configs(resources, request_timeout=METADATA_S_MAX)
            for resource, future in futures.items():
                entries = self._settled(future, f"describe {resource.name}")
                config[resource.name] = {name: entry.value for name, entry in entries.items()}
        return {
            name: Found(
                len(listed[name].partitions),
                min((len(p.replicas) for p in listed[name].partitions.values()), default=0),
                config[name],
            )
            for name in names
        }

    def create(self, topics: Iterable[Topic]) -> None:
        """Creates them as declared.

        Raises:
            CommandError: naming the topic the broker refused.
        """
        wanted = [
            NewTopic(
                topic.name,
                num_partitions=topic.ring.partitions(self._local),
                replication_factor=replicas(self._local),
                config=settings(topic, self._local),
            )
            for topic in topics
        ]
        if wanted:
            futures = self._client.create_topics(
                wanted, operation_timeout=CHANGE_S_MAX, request_timeout=CHANGE_S_MAX
            )
            for name, future in futures.items():
                self._settled(future, f"create {name}")

    def configure(self, changes: Iterable[Setting]) -> None:
        """Sets each to what is declared, all others untouched.

        Raises:
            CommandError: naming the topic the broker refused.
        """
        by_topic: dict[str, list[ConfigEntry]] = {}
        for change in changes:
            entry = ConfigEntry(
                change.name, change.expected, incremental_operation=AlterConfigOpType.SET
            )
            by_topic.setdefault(change.topic, []).append(entry)
        resources = [
            ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
            for name, entries in by_topic.items()
        ]
        if resources:
            futures = self._client.incremental_alter_configs(
                resources, request_timeout=CHANGE_S_MAX
            )
            for resource, future in futures.items():
                self._settled(future, f"configure {resource.name}")

    def _settled(self, future: Future[Any], what: str) -> Any:
        try:
            return future.result(timeout=CHANGE_S_MAX)
        except TimeoutError as error:
            raise unreachable("Kafka", self._bootstrap) from error
        except KafkaException as error:
            said = error.args[0]
            reason = said.str() if hasattr(said, "str") else str(said)
            raise CommandError(f"Kafka would not {what}: {reason}", "milena topics list") from error
