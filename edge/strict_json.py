"""JSON as strictly as RFC 8259 allows: one meaning for one body, whoever reads it. Pure.

Refuses what parsers disagree on (repeated keys, NaN, lone surrogates, a BOM) and what breaks them
(depth). Never shows text of the body in a reason.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

_LONE: Final = re.compile("[\ud800-\udfff]")
_NAME_SHOWN_MAX: Final = 64


class BadJson(ValueError):
    """`param` names the place where that is known."""

    def __init__(self, reason: str, param: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.param = param


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise BadJson("given twice; keep one", shown_name(name))
            seen.add(name)
    return made


def _constant(name: str) -> NoReturn:
    raise BadJson(f"holds {name.lstrip('-')}, which is no JSON number; send a finite one")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


def shown_name(name: str) -> str:
    """A name from a body, fit to be shown in an answer: printable ASCII, bounded."""
    plain = name.encode("ascii", "backslashreplace").decode("ascii")
    plain = "".join(mark if mark.isprintable() else "?" for mark in plain)
    return plain if len(plain) <= _NAME_SHOWN_MAX else plain[:_NAME_SHOWN_MAX] + "…"


def decode(raw: bytes) -> Any:
    """The value of a whole body.

    Raises:
        BadJson: anything but one JSON text in UTF-8 with one meaning.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadJson(f"not UTF-8 at byte {error.start}") from None
    try:
        value = _DECODER.decode(text)
    except BadJson:
        raise
    except RecursionError:
        raise BadJson("nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadJson(f"not JSON at character {error.pos}") from None
    except ValueError:
        raise BadJson("holds a number with too many digits") from None
    if "\\u" in text:
        _refuse_lone_surrogates(value)
    return value


def _refuse_lone_surrogates(value: Any) -> None:
    for path, text in _texts(value):
        if _LONE.search(text):
            raise BadJson("holds half of a surrogate pair, which is no character", path or None)


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    """Every string of a JSON value with its path, names included. No recursion: depth is the
    client's choice."""
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        path, item = stack.pop()
        if isinstance(item, str):
            yield path, item
        elif isinstance(item, dict):
            for name, inner in item.items():
                place = f"{path}.{shown_name(name)}" if path else shown_name(name)
                yield place, name
                if isinstance(inner, str | dict | list):
                    stack.append((place, inner))
        elif isinstance(item, list):
            for index, inner in enumerate(item):
                if isinstance(inner, str | dict | list):
                    stack.append((f"{path}[{index}]", inner))
