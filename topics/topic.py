"""What a topic is: name, key, ring, retention, class. Owns the nouns, declares none itself."""

from enum import StrEnum
from typing import Final

import msgspec

SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS


class TopicClass(StrEnum):
    """What a topic is for; retention, compatibility and access follow from it."""

    INBOX = "inbox"  # a machine's only input
    FACT = "fact"  # tells the world; analysts tap it
    CONTROL = "control"  # orders about a generation in flight
    LANE = "lane"  # work for one pool's workers
    REPLY = "reply"  # answers to waiting edges
    CONTENT = "content"  # the only class that may carry private text
    CONFIG = "config"  # compacted, read whole before start
    CHANGELOG = "changelog"  # a machine's state, compacted
    DEAD_LETTER = "dlq"  # records of an inbox that could not be read


class Compatibility(StrEnum):
    """How a subject may change, in the schema registry's words."""

    FULL_TRANSITIVE = "FULL_TRANSITIVE"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"


class Ring(msgspec.Struct, frozen=True):
    """What a key means and how many partitions share it: same ring, same key, same partition."""

    name: str
    local_partitions: int
    production_partitions: int

    def partitions(self, local: bool) -> int:
        return self.local_partitions if local else self.production_partitions


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One topic. `record` names its schema; None where the value is opaque (changelog, dlq)."""

    name: str
    topic_class: TopicClass
    ring: Ring
    record: str | None
    doc: str
    retention_ms: int
    compacted: bool = False
    message_bytes_max: int = 1_048_576
    producers: tuple[str, ...]
    consumers: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.compacted != (self.retention_ms < 0):
            raise ValueError(
                f"{self.name}: exactly the compacted topics keep their records for ever"
            )

    @property
    def content(self) -> bool:
        return self.topic_class is TopicClass.CONTENT

    @property
    def append_time(self) -> bool:
        """Broker append time is what folds call time; a changelog keeps the writer's."""
        return self.topic_class is not TopicClass.CHANGELOG

    @property
    def compatibility(self) -> Compatibility:
        public = self.topic_class in {TopicClass.FACT, TopicClass.CONFIG}
        return Compatibility.FULL_TRANSITIVE if public else Compatibility.BACKWARD_TRANSITIVE

    @property
    def subject(self) -> str:
        """The registry's subject, by the TopicNameStrategy."""
        return f"{self.name}-value"

    def config(self) -> dict[str, str]:
        """Broker settings, all of them explicit so that a difference can be shown."""
        settings = {
            "cleanup.policy": "compact" if self.compacted else "delete",
            "message.timestamp.type": "LogAppendTime" if self.append_time else "CreateTime",
            "max.message.bytes": str(self.message_bytes_max),
        }
        if self.compacted:
            # An audit can see a zombie's older record for a day before compaction hides it.
            settings["min.compaction.lag.ms"] = str(DAY_MS)
        else:
            settings["retention.ms"] = str(self.retention_ms)
        return settings
