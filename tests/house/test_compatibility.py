"""A release may never make the log unreadable: each is held against all earlier ones of its record."""

import copy
import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType
    from avro.schema import parse

from schemas.release import Release, releases
from topics.registry import TOPICS
from topics.topic import Compatibility

Schema = dict[str, Any]


def level_of(record: str) -> Compatibility:
    """The strictest of the record's topics."""
    levels = {topic.compatibility for topic in TOPICS if topic.record == record}
    full = Compatibility.FULL_TRANSITIVE
    return full if full in levels else Compatibility.BACKWARD_TRANSITIVE


def can_read(reader: Schema, writer: Schema) -> list[str]:
    """Why a reader cannot read what a writer wrote; empty where it can."""
    verdict = ReaderWriterCompatibilityChecker().get_compatibility(
        parse(json.dumps(reader)), parse(json.dumps(writer))
    )
    if verdict.compatibility is SchemaCompatibilityType.compatible:
        return []
    return sorted(verdict.messages)


def words_lost(new: Any, old: Any) -> set[str]:
    """Enum words of the old schema that the new one lacks: Avro would read them as unknown."""
    return _words(old) - _words(new)


def _words(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*(_words(item) for item in node)) if node else set()
    if isinstance(node, dict):
        own = {f"{node['name']}.{symbol}" for symbol in node.get("symbols", ())}
        return own.union(*(_words(value) for value in node.values()))
    return set()


def breaks(new: Schema, old: Schema, level: Compatibility) -> list[str]:
    """Every reason why `new` may not follow `old`."""
    reasons = [f"new readers fail: {why}" for why in can_read(new, old)]
    reasons += [f"word lost: {word}" for word in sorted(words_lost(new, old))]
    if level is Compatibility.FULL_TRANSITIVE:
        reasons += [f"old readers fail: {why}" for why in can_read(old, new)]
    return reasons


@pytest.mark.parametrize("record", releases())
def test_every_release_follows_all_earlier_ones(record: str) -> None:
    versions = releases()[record]
    complaints = [
        f"v{new.version} after v{old.version}: {why}"
        for at, new in enumerate(versions)
        for old in versions[:at]
        for why in breaks(new.schema, old.schema, level_of(record))
    ]
    assert not complaints, "\n".join(complaints)


def fact() -> Release:
    return releases()["RunFact"][-1]


def inbox() -> Release:
    return releases()["MeteringInbox"][-1]


def _field(schema: Schema, name: str) -> Schema:
    found: Schema = next(field for field in schema["fields"] if field["name"] == name)
    return found


def _drop(schema: Schema, name: str) -> None:
    schema["fields"] = [field for field in schema["fields"] if field["name"] != name]


def _add(schema: Schema, **more: object) -> None:
    schema["fields"].append({"name": "fresh", "type": "long", "doc": "New.", **more})


FULL = Compatibility.FULL_TRANSITIVE
BACKWARD = Compatibility.BACKWARD_TRANSITIVE
BREAKING: dict[str, tuple[Callable[[], Release], Callable[[Schema], object], Compatibility]] = {
    "a field without a default": (fact, lambda s: _add(s), FULL),
    "another type": (fact, lambda s: _field(s, "at").update(type="string"), FULL),
    "a field that readers need is gone": (fact, lambda s: _drop(s, "user_id"), FULL),
    "another name": (fact, lambda s: s.update(name="RunFacts"), FULL),
    "an enum word is gone": (fact, lambda s: _field(s, "kind")["type"]["symbols"].pop(), FULL),
    "a branch is gone": (inbox, lambda s: _field(s, "body")["type"].pop(), BACKWARD),
    "a field without a default in a branch": (
        inbox,
        lambda s: _add(_field(s, "body")["type"][0]),
        BACKWARD,
    ),
}
ALLOWED: dict[str, tuple[Callable[[], Release], Callable[[Schema], object], Compatibility]] = {
    "nothing": (fact, lambda s: s, FULL),
    "a field with a default": (fact, lambda s: _add(s, default=0), FULL),
    "an enum word more": (fact, lambda s: _field(s, "kind")["type"]["symbols"].append("x"), FULL),
    "better words": (fact, lambda s: s.update(doc="Other words."), FULL),
    "a branch more": (
        inbox,
        lambda s: _field(s, "body")["type"].append({"type": "record", "name": "N", "fields": []}),
        BACKWARD,
    ),
}


@pytest.mark.parametrize("change", BREAKING)
def test_a_breaking_change_is_found(change: str) -> None:
    release, edit, level = BREAKING[change]
    new = copy.deepcopy(release().schema)
    edit(new)
    assert breaks(new, release().schema, level)


@pytest.mark.parametrize("change", ALLOWED)
def test_a_harmless_change_is_let_through(change: str) -> None:
    release, edit, level = ALLOWED[change]
    new = copy.deepcopy(release().schema)
    edit(new)
    assert breaks(new, release().schema, level) == []


def test_facts_are_stricter_than_inboxes() -> None:
    assert level_of("RunFact") is FULL
    assert level_of("RunsInbox") is BACKWARD
    branch = {"type": "record", "name": "N", "fields": []}
    new = copy.deepcopy(inbox().schema)
    _field(new, "body")["type"].append(branch)
    assert breaks(new, inbox().schema, FULL), "an old reader would meet a branch it cannot read"
