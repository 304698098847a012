"""The schemas: all used, all documented, no private text, each with an example that works."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from schemas.catalogue import FOLDER, NAMESPACE, definitions, short
from schemas.generated import types
from schemas.release import roots
from topics.registry import TOPICS
from topics.topic import TopicClass
from topics.wire import decode, encode

EXAMPLES = FOLDER / "examples"
CONTENT_MARK = "content:"
# Words that a field of text or bytes would have if it held what people write or read.
CONTENT_WORDS = {
    "text", "content", "prompt", "answer", "delta", "message", "messages", "title", "body",
    "query", "snippet", "excerpt", "document", "instructions",
}  # fmt: skip
NO_CONTENT_SUFFIXES = ("_id", "_key", "_hash", "_version")


def fields(record: str) -> list[dict[str, Any]]:
    return list(definitions()[record].get("fields", ()))


def references(node: Any) -> Iterator[str]:
    """Short names of the types a field's type names."""
    if isinstance(node, str) and node.startswith(NAMESPACE):
        yield short(node)
    elif isinstance(node, list):
        for branch in node:
            yield from references(branch)
    elif isinstance(node, dict):
        yield from references(node["items"] if node["type"] == "array" else node["type"])


def holds_text(node: Any) -> bool:
    if isinstance(node, list):
        return any(holds_text(branch) for branch in node)
    if isinstance(node, dict):
        return holds_text(node.get("items", node["type"]))
    return node in {"string", "bytes"}


def reachable(record: str) -> set[str]:
    seen: set[str] = set()
    waiting = [record]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [ref for field in fields(name) for ref in references(field["type"])]
    return seen


def test_every_topic_has_its_record_and_every_record_its_topic() -> None:
    used = {topic.record for topic in TOPICS if topic.record is not None}
    assert used == set(roots())


def test_no_type_is_an_orphan() -> None:
    assert set().union(*(reachable(root) for root in roots())) == set(definitions())


def test_everything_is_documented() -> None:
    complaints = [name for name, d in definitions().items() if len(d.get("doc", "")) < 8]
    complaints += [
        f"{name}.{field['name']}"
        for name in definitions()
        for field in fields(name)
        if len(field.get("doc", "")) < 4
    ]
    assert not complaints, complaints


def test_a_word_of_a_newer_writer_can_be_read() -> None:
    """A reader that lacks a symbol takes the enum's default, so every enum must have one."""
    for name, definition in definitions().items():
        if definition["type"] == "enum":
            assert definition["symbols"][0] == definition["default"] == "unknown", name


def test_every_record_on_a_topic_has_an_identity() -> None:
    for root in roots():
        assert fields(root)[0]["name"] == "event_id", root


def content_of(definition: dict[str, Any]) -> list[str]:
    """Fields of a definition that hold private text, by their doc or by their name."""
    found = []
    for field in definition.get("fields", ()):
        name = field["name"]
        marked = field["doc"].lower().startswith(CONTENT_MARK)
        worded = holds_text(field["type"]) and bool(CONTENT_WORDS & set(name.split("_")))
        if marked or (worded and not name.endswith(NO_CONTENT_SUFFIXES)):
            found.append(f"{definition['name']}.{name}")
    return found


def test_private_text_lives_in_the_content_topics_alone() -> None:
    allowed = {t.record for t in TOPICS if t.topic_class is TopicClass.CONTENT}
    assert len(allowed) == 1
    complaints = [
        place
        for root in roots()
        if root not in allowed
        for name in reachable(root)
        for place in content_of(definitions()[name])
    ]
    assert not complaints, f"{complaints}: records carry ids and counts, the store carries text"
    for root in allowed:
        assert root is not None
        assert [place for name in reachable(root) for place in content_of(definitions()[name])]


@pytest.mark.parametrize(
    ("name", "kind", "doc", "caught"),
    [
        ("text", "string", "The answer.", True),
        ("tool_query", ["null", "string"], "What was asked.", True),
        ("raw", "bytes", "content: whatever was typed.", True),
        ("deltas", {"type": "array", "items": "string"}, "Content: each piece.", True),
        ("content", "bytes", "Anything.", True),
        ("text_epoch", "int", "Which epoch's text.", False),
        ("user_message_id", ["null", "string"], "The message.", False),
        ("messages", "int", "How many.", False),
        ("plan_version", "string", "Content hash.", False),
    ],
)
def test_the_rule_of_content_bites(name: str, kind: Any, doc: str, caught: bool) -> None:
    made = {"name": "X", "fields": [{"name": name, "type": kind, "doc": doc}]}
    assert bool(content_of(made)) is caught


def test_every_record_has_an_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.json")} == set(roots())


@pytest.mark.parametrize("record", roots())
def test_examples_go_there_and_back(record: str) -> None:
    kind: type[msgspec.Struct] = getattr(types, record)
    raw = (EXAMPLES / f"{record}.json").read_bytes()
    examples = msgspec.json.decode(raw, type=list[kind])  # type: ignore[valid-type]
    assert examples
    for value, plain in zip(examples, json.loads(raw), strict=True):
        assert decode(kind, encode(value)) == value
        assert json.loads(msgspec.json.encode(value)) == plain, (
            "an example names every field, no other"
        )


@pytest.mark.parametrize("record", [r for r in roots() if fields(r)[-1]["name"] == "body"])
def test_every_branch_of_an_envelope_has_an_example(record: str) -> None:
    shown = {e["body"]["-type"] for e in json.loads((EXAMPLES / f"{record}.json").read_text())}
    assert shown == set(fields(record)[-1]["type"])
