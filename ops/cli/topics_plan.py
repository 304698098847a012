"""What to do so that a broker's topics become those of the registry. Pure: no broker, no output.

A plan creates and configures; it never deletes a topic and never changes a partition count, because
keys would then live elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from topics.topic import Topic

PRODUCTION_REPLICAS = 3
PRODUCTION_INSYNC_MIN = "2"


class Found(msgspec.Struct, frozen=True):
    """One topic as the broker has it. `config` holds at least the settings that we set."""

    partitions: int
    replicas: int
    config: Mapping[str, str]


class Setting(msgspec.Struct, frozen=True):
    """One broker setting that differs; `found` is None where the broker did not name it."""

    topic: str
    name: str
    found: str | None
    expected: str

    def __str__(self) -> str:
        return f"{self.topic}: {self.name} is {self.found}, declared {self.expected}"


class Mismatch(msgspec.Struct, frozen=True):
    """What cannot be put right in place."""

    topic: str
    what: str
    found: int
    expected: int

    def __str__(self) -> str:
        return f"{self.topic} has {self.found} {self.what}, declared {self.expected}"


class Plan(msgspec.Struct, frozen=True):
    """The difference between registry and broker. `unknown` topics are shown and left alone."""

    create: tuple[Topic, ...]
    configure: tuple[Setting, ...]
    mismatches: tuple[Mismatch, ...]
    unknown: tuple[str, ...]

    @property
    def empty(self) -> bool:
        return not (self.create or self.configure or self.mismatches)


def replicas(local: bool) -> int:
    return 1 if local else PRODUCTION_REPLICAS


def settings(topic: Topic, local: bool) -> dict[str, str]:
    """The broker settings of a topic here; production adds what makes `acks=all` mean two."""
    config = topic.config()
    if not local:
        config["min.insync.replicas"] = PRODUCTION_INSYNC_MIN
    return config


def compare(declared: Iterable[Topic], found: Mapping[str, Found], local: bool) -> Plan:
    """`found` maps topic names to what the broker has, its internal topics left out."""
    create: list[Topic] = []
    configure: list[Setting] = []
    mismatches: list[Mismatch] = []
    names = set()
    for topic in declared:
        names.add(topic.name)
        here = found.get(topic.name)
        if here is None:
            create.append(topic)
            continue
        mismatches += _mismatches(topic, here, local)
        configure += [
            Setting(topic.name, name, here.config.get(name), value)
            for name, value in settings(topic, local).items()
            if here.config.get(name) != value
        ]
    unknown = tuple(sorted(set(found) - names))
    return Plan(tuple(create), tuple(configure), tuple(mismatches), unknown)


def _mismatches(topic: Topic, here: Found, local: bool) -> list[Mismatch]:
    wrong = []
    partitions = topic.ring.partitions(local)
    if here.partitions != partitions:
        wrong.append(Mismatch(topic.name, "partitions", here.partitions, partitions))
    # More replicas than declared harm nobody; fewer would lose what was acknowledged.
    if here.replicas < replicas(local):
        wrong.append(Mismatch(topic.name, "replicas", here.replicas, replicas(local)))
    return wrong
