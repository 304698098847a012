"""What a registry must hold, and how one differs from it. Pure: no network.

One subject a topic that has a schema; each of its versions is a release of the topic's record, under
the id that the records on the log carry.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from ops.schema_registry.names import in_full
from schemas.release import Release, file_of, releases
from topics.registry import TOPICS
from topics.topic import Compatibility, Topic


class Version(msgspec.Struct, frozen=True):
    """One version of a subject as a registry holds it. `schema` has full names."""

    version: int
    id: int
    schema: Any


class Held(msgspec.Struct, frozen=True):
    """One subject as a registry holds it; `compatibility` is None where it follows the default."""

    versions: tuple[Version, ...]
    compatibility: str | None


class Subject(msgspec.Struct, frozen=True):
    """One subject as it must be, oldest release first."""

    name: str
    compatibility: Compatibility
    releases: tuple[Release, ...]


class What(StrEnum):
    """In which way a subject differs. Only the first two can be put right."""

    MISSING = "version"
    COMPATIBILITY = "compatibility"
    ID = "id"
    LATEST = "latest id"


MENDABLE = frozenset({What.MISSING, What.COMPATIBILITY})


class Finding(msgspec.Struct, frozen=True):
    """One difference. `release` is the one that is missing, where one is."""

    subject: str
    what: What
    found: str | None
    expected: str
    release: Release | None = None

    def __str__(self) -> str:
        return f"{self.subject}: {self.what.value} found {self.found}, expected {self.expected}"


def text_of(release: Release) -> str:
    """The exact text that is registered, the released file's: a registry may compare bytes."""
    return file_of(release.record, release.version).strip()


def subjects(topics: Iterable[Topic] = TOPICS) -> tuple[Subject, ...]:
    """Every subject, in the order of the topics."""
    by_record = releases()
    return tuple(
        Subject(topic.subject, topic.compatibility, by_record[topic.record])
        for topic in topics
        if topic.record is not None
    )


def compare(wanted: Iterable[Subject], held: Mapping[str, Held]) -> tuple[Finding, ...]:
    """Every way in which a registry differs; other subjects in it are nobody's business."""
    findings: list[Finding] = []
    for subject in wanted:
        here = held.get(subject.name, Held((), None))
        ids = {version.id: version for version in here.versions}
        findings += [
            finding
            for release in subject.releases
            if (finding := _of_release(subject.name, release, ids, here)) is not None
        ]
        findings += _of_latest(subject, here)
        if here.versions and here.compatibility != subject.compatibility.value:
            found = here.compatibility
            expected = subject.compatibility.value
            findings.append(Finding(subject.name, What.COMPATIBILITY, found, expected))
    return tuple(findings)


def _of_release(
    subject: str, release: Release, ids: Mapping[int, Version], here: Held
) -> Finding | None:
    version = ids.get(release.id)
    expected = f"id {release.id} for {release.record}.v{release.version}"
    if version is not None:
        if version.schema == in_full(release.schema):
            return None
        return Finding(subject, What.ID, f"id {release.id} for another schema", expected)
    same = [held.id for held in here.versions if held.schema == in_full(release.schema)]
    if same:
        return Finding(subject, What.ID, f"id {same[0]}", expected)
    return Finding(subject, What.MISSING, None, expected, release)


def _of_latest(subject: Subject, here: Held) -> list[Finding]:
    """The newest version must be a release of ours: else somebody registered past us."""
    if not here.versions:
        return []
    latest = max(here.versions, key=lambda version: version.version)
    if any(latest.schema == in_full(release.schema) for release in subject.releases):
        return []
    expected = str(subject.releases[-1].id)
    return [Finding(subject.name, What.LATEST, str(latest.id), expected)]


def parsed(text: str) -> Any:
    """A schema as a registry sends it, with every name in full."""
    return in_full(json.loads(text))
