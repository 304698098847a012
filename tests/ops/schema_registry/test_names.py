"""Two spellings of one schema compare equal, and different schemas do not."""

import json

import pytest
from fastavro.schema import fullname

from ops.schema_registry.names import in_full
from schemas.release import releases
from tests.ops.schema_registry.registry_double import _respelled


@pytest.mark.parametrize("record", releases())
def test_a_respelled_release_is_the_same(record: str) -> None:
    for release in releases()[record]:
        respelled = json.loads(_respelled(json.dumps(release.schema)))
        assert in_full(respelled) == in_full(release.schema)
        assert in_full(release.schema)["name"] == fullname(release.schema)


def test_names_are_inherited_as_avro_says() -> None:
    inner = {"type": "enum", "name": "E", "symbols": ["a"]}
    outer = {
        "type": "record",
        "name": "R",
        "namespace": "n.s",
        "fields": [
            {"name": "a", "type": inner},
            {"name": "b", "type": ["null", "E"]},
            {"name": "c", "type": {"type": "array", "items": "n.s.E"}},
            {"name": "d", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "e", "type": {"type": "string"}},
        ],
    }
    full = in_full(outer)
    types = [field["type"] for field in full["fields"]]
    assert full["name"] == "n.s.R"
    assert types[0]["name"] == "n.s.E"
    assert types[1] == ["null", "n.s.E"]
    assert types[2]["items"] == "n.s.E"
    assert types[3] == {"type": "long", "logicalType": "timestamp-millis"}
    assert types[4] == "string"


def test_a_difference_stays_one() -> None:
    schema = releases()["Plan"][-1].schema
    other = json.loads(json.dumps(schema))
    other["fields"][0]["doc"] = "Other words."
    assert in_full(other) != in_full(schema)
    moved = {**schema, "namespace": "elsewhere"}
    assert in_full(moved) != in_full(schema)
