"""What a proof says: a difference with its place and both values, or why nothing can be said. Pure.

Owns the walk to the first unequal field. Shows ids, numbers and words of enums, as they are on the log.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Any, Final

import msgspec

SHOWN_CHARACTERS_MAX: Final = 200
ABSENT: Final = "absent"


class Check(StrEnum):
    """What was compared with the folded log."""

    STATE = "state"  # the table's record of a key
    FENCE = "fence"  # the order of a key's records in the changelog
    OUTPUT = "output"  # what a fold told, in the topic it was told to
    DEAD_LETTER = "dead letter"
    LAW = "law"  # what a fold may do at all: counters, ends, grants
    USAGE = "usage"  # tokens settled, told by runs and told by metering


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One place where the record is not what the log says. The place is the inbox event's, where one
    decides it, else that of the record found."""

    check: Check
    machine: str
    topic: str
    partition: int
    offset: int
    key: str
    field: str
    log: str
    """What the folded log says."""
    found: str
    """What is recorded."""


class Unjudged(Exception):
    """Nothing can be said about the span; the message says why and what to do."""


def first_unequal(log: Any, found: Any, path: str = "") -> tuple[str, str, str] | None:
    """(field, log's value, found value) where two values part first; None where they are equal."""
    if isinstance(log, msgspec.Struct) and type(log) is type(found):
        for name in log.__struct_fields__:
            unequal = first_unequal(getattr(log, name), getattr(found, name), _under(path, name))
            if unequal is not None:
                return unequal
        return None
    if isinstance(log, dict) and isinstance(found, dict):
        return _unequal_maps(log, found, path)
    if isinstance(log, list | tuple) and isinstance(found, list | tuple):
        if len(log) != len(found):
            return _under(path, "length"), str(len(log)), str(len(found))
        for at, (one, other) in enumerate(zip(log, found, strict=True)):
            unequal = first_unequal(one, other, f"{path}[{at}]")
            if unequal is not None:
                return unequal
        return None
    return None if log == found else (path or "value", shown(log), shown(found))


def _unequal_maps(
    log: dict[Any, Any], found: dict[Any, Any], path: str
) -> tuple[str, str, str] | None:
    for key in [*log, *(key for key in found if key not in log)]:
        under = f"{path}[{shown(key)}]"
        if key not in log or key not in found:
            sides = [shown(side[key]) if key in side else ABSENT for side in (log, found)]
            return under, sides[0], sides[1]
        unequal = first_unequal(log[key], found[key], under)
        if unequal is not None:
            return unequal
    if [*log] != [*found]:
        return _under(path, "order"), shown([*log]), shown([*found])
    return None


def shown(value: Any) -> str:
    """A value in few words; bytes as hex."""
    if isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, Enum):
        text = str(value.value)
    else:
        text = str(value)
    cut = len(text) > SHOWN_CHARACTERS_MAX
    return f"{text[:SHOWN_CHARACTERS_MAX]}…" if cut else text


def _under(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
