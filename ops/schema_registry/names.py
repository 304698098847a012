"""Avro schemas with every name in full, so that two spellings of one schema compare equal. Pure.

Apicurio answers with its own spelling: inner namespaces are left out where they are inherited.
"""

from __future__ import annotations

from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
COMPOUND = frozenset({"array", "map"})


def in_full(node: Any, namespace: str = "") -> Any:
    """The same schema without `namespace`, each named type by its full name."""
    if isinstance(node, str):
        return node if node in PRIMITIVES else _full(node, namespace)
    if isinstance(node, list):
        return [in_full(branch, namespace) for branch in node]
    kind = node["type"]
    if kind in NAMED:
        return _named(node, namespace)
    if kind in COMPOUND:
        inner = "items" if kind == "array" else "values"
        return {**node, inner: in_full(node[inner], namespace)}
    if isinstance(kind, str) and kind in PRIMITIVES:
        return dict(node) if len(node) > 1 else kind
    return {**node, "type": in_full(kind, namespace)}


def _named(node: dict[str, Any], outer: str) -> dict[str, Any]:
    name = _full(node["name"], node.get("namespace", outer))
    rest = {key: value for key, value in node.items() if key != "namespace"}
    whole = {**rest, "name": name}
    if "fields" in node:
        inner = name.rpartition(".")[0]
        whole["fields"] = [{**f, "type": in_full(f["type"], inner)} for f in node["fields"]]
    return whole


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
