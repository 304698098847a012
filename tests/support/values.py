"""Any legal value of any record, made from its schema, for properties over all of them."""

from typing import Any

import msgspec
from hypothesis import strategies as st

from schemas.catalogue import NAMESPACE, definitions, short
from schemas.generated import types

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
ITEMS_MAX = 2

_PRIMITIVES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-INT_MAX - 1, INT_MAX),
    "long": st.integers(-LONG_MAX - 1, LONG_MAX),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=16),
}


def plain(node: Any) -> st.SearchStrategy[Any]:
    """Values of a schema as builtins; a branch of an envelope carries its name under `-type`."""
    if isinstance(node, list):
        return st.one_of([_branch(branch) for branch in node])
    if isinstance(node, dict):
        if node["type"] == "array":
            return st.lists(plain(node["items"]), max_size=ITEMS_MAX)
        return _PRIMITIVES[node["type"]]
    if node in _PRIMITIVES:
        return _PRIMITIVES[node]
    definition = definitions()[short(node)]
    if definition["type"] == "enum":
        return st.sampled_from(definition["symbols"])
    return st.deferred(lambda: _record(definition))


def _record(definition: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({f["name"]: plain(f["type"]) for f in definition["fields"]})


def _branch(node: Any) -> st.SearchStrategy[Any]:
    made = plain(node)
    if isinstance(node, str) and node.startswith(NAMESPACE):
        return made.map(lambda v: {"-type": node, **v} if isinstance(v, dict) else v)
    return made


def of(record: str) -> st.SearchStrategy[msgspec.Struct]:
    """Typed values of one record."""
    kind: type[msgspec.Struct] = getattr(types, record)
    return plain(f"{NAMESPACE}.{record}").map(lambda value: msgspec.convert(value, kind))
