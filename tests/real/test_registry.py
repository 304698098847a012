"""The live registry as a foreign client meets it: our bytes decode by its ids, bad schemas are refused.

`MILENA_REGISTRY_URL` names one that runs already; otherwise the suite's stack is used.
"""

import copy
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.serialization import MessageField, SerializationContext

from ops.schema_registry.client import RegistryClient
from ops.schema_registry.sync import check, sync
from ops.schema_registry.wanted import subjects
from ops.stack.fresh import FreshStack
from schemas.catalogue import FOLDER, definitions, short
from schemas.generated import types
from schemas.release import releases
from topics.registry import FACTS_RUNS, METERING_INBOX, RUNS_INBOX, TOPICS
from topics.topic import Topic
from topics.wire import encode

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def url(request: pytest.FixtureRequest) -> str:
    """A registry that was filled by `milena schemas sync`."""
    given = os.environ.get("MILENA_REGISTRY_URL")
    if given:
        with RegistryClient(given) as client:
            sync(client, subjects())
        return given
    stack: FreshStack = request.getfixturevalue("stack")
    stack.milena("schemas", "sync")
    return f"http://127.0.0.1:{stack.base + 15}/apis/ccompat/v7"


@pytest.fixture
def foreign(url: str) -> Iterator[SchemaRegistryClient]:
    """A client that knows nothing of ours but the address."""
    with SchemaRegistryClient({"url": url}) as client:
        yield client


def test_every_subject_is_as_released(url: str) -> None:
    with RegistryClient(url) as client:
        assert check(client, subjects()) == ()
        before = client.held(subjects())
        assert sync(client, subjects()).registered == ()
        assert client.held(subjects()) == before


def examples(topic: Topic) -> Iterator[tuple[msgspec.Struct, dict[str, Any]]]:
    """Each example as a typed value and as a foreign reader must see it."""
    assert topic.record is not None
    kind: type[msgspec.Struct] = getattr(types, topic.record)
    raw = (FOLDER / "examples" / f"{topic.record}.json").read_bytes()
    for value in msgspec.json.decode(raw, type=list[kind]):  # type: ignore[valid-type]
        yield value, seen(topic.record, value)


def seen(record: str, value: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for field in definitions()[record]["fields"]:
        found = getattr(value, field["name"])
        if isinstance(found, msgspec.Struct):
            found = seen(type(found).__name__, found)
        elif isinstance(found, tuple):
            found = [seen(short(field["type"]["items"]), item) for item in found]
        elif found is not None and "timestamp-millis" in json.dumps(field["type"]):
            found = datetime.fromtimestamp(found / 1_000, UTC)
        plain[field["name"]] = found
    return plain


@pytest.mark.parametrize("topic", [t for t in TOPICS if t.record], ids=lambda topic: topic.name)
def test_a_foreign_client_decodes_what_we_write(
    topic: Topic, foreign: SchemaRegistryClient
) -> None:
    decode = AvroDeserializer(foreign)
    context = SerializationContext(topic.name, MessageField.VALUE)
    for value, expected in examples(topic):
        assert decode(encode(value), context) == expected


@pytest.mark.parametrize("topic", [FACTS_RUNS, RUNS_INBOX], ids=lambda topic: topic.name)
def test_a_breaking_change_is_refused(topic: Topic, foreign: SchemaRegistryClient) -> None:
    assert topic.record is not None
    held = foreign.get_latest_version(topic.subject)
    broken = copy.deepcopy(releases()[topic.record][-1].schema)
    broken["fields"].append({"name": "fresh", "type": "long", "doc": "New, without a default."})
    schema = Schema(json.dumps(broken), "AVRO")
    assert not foreign.test_compatibility(topic.subject, schema)
    with pytest.raises(SchemaRegistryError) as refused:
        foreign.register_schema(topic.subject, schema)
    assert refused.value.http_status_code == 409
    assert foreign.get_latest_version(topic.subject).version == held.version


def test_facts_refuse_what_old_readers_could_not_read(foreign: SchemaRegistryClient) -> None:
    less = copy.deepcopy(releases()["RunFact"][-1].schema)
    less["fields"] = [field for field in less["fields"] if field["name"] != "user_id"]
    assert not foreign.test_compatibility(FACTS_RUNS.subject, Schema(json.dumps(less), "AVRO"))


def test_harmless_changes_are_taken(foreign: SchemaRegistryClient) -> None:
    more = copy.deepcopy(releases()["RunFact"][-1].schema)
    more["fields"].append({"name": "fresh", "type": "long", "doc": "New.", "default": 0})
    kind = next(field for field in more["fields"] if field["name"] == "kind")
    kind["type"]["symbols"].append("fresh")
    assert foreign.test_compatibility(FACTS_RUNS.subject, Schema(json.dumps(more), "AVRO"))
    wider = copy.deepcopy(releases()["MeteringInbox"][-1].schema)
    branches = next(field for field in wider["fields"] if field["name"] == "body")["type"]
    branches.append({"type": "record", "name": "Fresh", "doc": "New.", "fields": []})
    assert foreign.test_compatibility(METERING_INBOX.subject, Schema(json.dumps(wider), "AVRO"))
