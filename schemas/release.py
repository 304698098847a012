"""The frozen past: every released version of every record, with its registry id.

`python -m schemas.release` appends a version for each record whose schema changed. Released
files are never edited: old records on the log are read with them, and compatibility is checked
against them.
Ids are given in order of release, as a registry that is filled in this order gives them.
"""

import json
from functools import cache
from typing import Any, Final

import msgspec

from schemas.catalogue import FOLDER, NAMESPACE, definitions, short, whole

RELEASED: Final = FOLDER / "released"
INDEX: Final = RELEASED / "ids.json"


class Release(msgspec.Struct, frozen=True):
    """One released version of one record. `id` is the registry's id, 1 and up."""

    record: str
    version: int
    id: int
    schema: dict[str, Any]


def roots() -> list[str]:
    """Records that stand alone on a topic: those no other record refers to."""
    text = json.dumps([list(definition.get("fields", ())) for definition in definitions().values()])
    return [
        name
        for name, definition in definitions().items()
        if definition["type"] == "record" and f'"{NAMESPACE}.{name}"' not in text
    ]


@cache
def releases() -> dict[str, tuple[Release, ...]]:
    """Record name -> its releases, oldest first."""
    found: dict[str, list[Release]] = {}
    for entry in json.loads(INDEX.read_text(encoding="utf-8")):
        record, version = entry["record"], entry["version"]
        schema = json.loads(file_of(record, version))
        found.setdefault(record, []).append(Release(record, version, entry["id"], schema))
    return {record: tuple(versions) for record, versions in found.items()}


def file_of(record: str, version: int) -> str:
    return (RELEASED / f"{record}.v{version}.json").read_text(encoding="utf-8")


def main() -> None:
    RELEASED.mkdir(exist_ok=True)
    index = json.loads(INDEX.read_text(encoding="utf-8")) if INDEX.exists() else []
    newest = {entry["record"]: entry["version"] for entry in index}
    for record in roots():
        schema = whole(record)
        version = newest.get(record, 0)
        if version and json.loads(file_of(record, version)) == schema:
            continue
        target = RELEASED / f"{record}.v{version + 1}.json"
        target.write_text(json.dumps(schema, ensure_ascii=False) + "\n", encoding="utf-8")
        index.append({"id": len(index) + 1, "record": short(record), "version": version + 1})
    lines = ",\n".join(json.dumps(entry) for entry in index)
    INDEX.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
