"""Reads the `.avsc` files and resolves references between them.

Owns the answer to "what is the whole schema of record X". Never writes, never talks to a registry.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

NAMESPACE: Final = "milena.events.v1"
FOLDER: Final = Path(__file__).parent

Schema = Any  # an Avro schema as parsed JSON: a name, a union list or a dict


def snake(name: str) -> str:
    """`AccountsInbox` -> `accounts_inbox`, the file a named type lives in."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@cache
def definitions() -> dict[str, dict[str, Any]]:
    """Every named type by its short name, as its file defines it (references unresolved)."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.avsc")):
        definition = json.loads(path.read_text(encoding="utf-8"))
        if path.stem != snake(definition["name"]):
            raise ValueError(f"{path.name} defines {definition['name']}")
        found[definition["name"]] = definition
    return found


def short(reference: str) -> str:
    """`milena.events.v1.Submit` -> `Submit`."""
    return reference.removeprefix(f"{NAMESPACE}.")


def whole(name: str) -> dict[str, Any]:
    """The self-contained schema of a record: each named type defined where it is first used."""
    seen: set[str] = set()

    def resolve(node: Schema) -> Schema:
        if isinstance(node, str):
            if not node.startswith(NAMESPACE):
                return node
            if node in seen:
                return node
            seen.add(node)
            return resolve_definition(definitions()[short(node)])
        if isinstance(node, list):
            return [resolve(branch) for branch in node]
        if node["type"] == "array":
            return {**node, "items": resolve(node["items"])}
        return dict(node)

    def resolve_definition(definition: dict[str, Any]) -> dict[str, Any]:
        if definition["type"] == "enum":
            return dict(definition)
        fields = [{**field, "type": resolve(field["type"])} for field in definition["fields"]]
        return {**definition, "fields": fields}

    seen.add(f"{NAMESPACE}.{name}")
    return resolve_definition(definitions()[name])


def without_logical_types(node: Schema) -> Schema:
    """The same schema for the hot path: timestamps stay integers instead of becoming datetimes."""
    if isinstance(node, list):
        return [without_logical_types(branch) for branch in node]
    if isinstance(node, dict):
        return {
            key: without_logical_types(value) if key in {"type", "items", "fields"} else value
            for key, value in node.items()
            if key != "logicalType"
        }
    return node
