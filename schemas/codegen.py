"""Makes `schemas/generated/types.py` from the `.avsc` files: `python -m schemas.codegen`.

Owns the mapping from Avro to Python. A test runs it and fails when the committed file differs.
"""

from pathlib import Path
from typing import Any, Final

from schemas.catalogue import FOLDER, NAMESPACE, Schema, definitions, short

TARGET: Final = FOLDER / "generated" / "types.py"
_PRIMITIVES: Final = {
    "string": "str",
    "long": "int",
    "int": "int",
    "boolean": "bool",
    "double": "float",
    "bytes": "bytes",
    "null": "None",
}
_HEAD: Final = '''"""Types of every record, made from the schemas by `python -m schemas.codegen`.

Never edited by hand. Fields keep the names, order and defaults of the `.avsc` files; timestamps are
UTC epoch milliseconds.
"""

from enum import StrEnum

import msgspec
'''


def _python_type(node: Schema) -> str:
    if isinstance(node, list):
        ordered = [branch for branch in node if branch != "null"] + [n for n in node if n == "null"]
        return " | ".join(_python_type(branch) for branch in ordered)
    if isinstance(node, dict):
        if node["type"] == "array":
            return f"tuple[{_python_type(node['items'])}, ...]"
        return _PRIMITIVES[node["type"]]
    return _PRIMITIVES.get(node) or short(node)


def _default(field: dict[str, Any]) -> str:
    if "default" not in field:
        return ""
    value, node = field["default"], field["type"]
    if isinstance(node, str) and node.startswith(NAMESPACE):
        return f" = {short(node)}.{value.upper()}"
    return f" = {value!r}"


def _references(definition: dict[str, Any]) -> list[str]:
    found: list[str] = []

    def walk(node: Schema) -> None:
        if isinstance(node, str) and node.startswith(NAMESPACE):
            found.append(short(node))
        elif isinstance(node, list):
            for branch in node:
                walk(branch)
        elif isinstance(node, dict):
            walk(node["items"] if node["type"] == "array" else node["type"])

    for field in definition.get("fields", ()):
        walk(field["type"])
    return found


def union_members() -> frozenset[str]:
    """Records that are branches of an envelope's `body` and therefore carry their name as a tag."""
    return frozenset(
        short(branch)
        for definition in definitions().values()
        for field in definition.get("fields", ())
        if field["name"] == "body"
        for branch in field["type"]
    )


def _docstring(text: str, indent: str = "    ") -> str:
    line = f'{indent}"""{text}"""'
    return line if len(line) <= 100 else f'{indent}"""{text}"""  # noqa: E501'


def _enum(definition: dict[str, Any]) -> str:
    symbols = "\n".join(f'    {symbol.upper()} = "{symbol}"' for symbol in definition["symbols"])
    return f"class {definition['name']}(StrEnum):\n{_docstring(definition['doc'])}\n\n{symbols}\n"


def _record(definition: dict[str, Any], tagged: bool) -> str:
    name = definition["name"]
    tag = f', tag_field="-type", tag="{NAMESPACE}.{name}"' if tagged else ""
    head = f"class {name}(msgspec.Struct, frozen=True, kw_only=True{tag}):"
    if len(head) > 100:
        head = f"class {name}(\n    msgspec.Struct, frozen=True, kw_only=True{tag}\n):"
    fields = "\n".join(
        f"    {field['name']}: {_python_type(field['type'])}{_default(field)}"
        for field in definition["fields"]
    )
    return f"{head}\n{_docstring(definition['doc'])}\n\n{fields}\n"


def render() -> str:
    """The whole module as text, definitions before their uses."""
    known, tagged = definitions(), union_members()
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name not in ordered:
            for reference in _references(known[name]):
                visit(reference)
            ordered.append(name)

    for name in sorted(known):
        visit(name)
    blocks = [
        _enum(known[name])
        if known[name]["type"] == "enum"
        else _record(known[name], name in tagged)
        for name in ordered
    ]
    return "\n\n".join([_HEAD, *blocks]) if blocks else _HEAD


def main(target: Path = TARGET) -> None:
    target.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
