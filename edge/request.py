"""What a client may ask: one strict type, and reasons that name the parameter. Pure.

Owns shape and bounds of a request body. Knows no user, no limit and no tokenizer.
"""

import re
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from connectors.tokens import Message
from edge.errors import ApiError, invalid
from edge.strict_json import BadJson, decode, shown_name
from schemas.generated.types import Fallback

SEED_MAX: Final = 2**63 - 1
STOP_TEXTS_MAX: Final = 4
STOP_CHARS_MAX: Final = 256
TEMPERATURE_MIN: Final = 0.01
"""Least temperature above zero; below it a sampler divides by next to nothing."""

Temperature = Annotated[float, Meta(ge=0, le=2, description="0, or 0.01 to 2; default 1")]
TopP = Annotated[float, Meta(gt=0, le=1, description="above 0, at most 1; default 1")]
Tokens = Annotated[int, Meta(ge=1, description="at most the model's output bound; default 1000")]
Seed = Annotated[int, Meta(ge=0, le=SEED_MAX)]
StopText = Annotated[str, Meta(min_length=1, max_length=STOP_CHARS_MAX)]
Stops = Annotated[list[StopText], Meta(max_length=STOP_TEXTS_MAX)]


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message. `role` is `user` or `assistant`, `content` is text."""

    role: str
    content: str


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /v1/generations."""

    model: Annotated[str, Meta(min_length=1, max_length=128)]
    messages: Annotated[list[Turn], Meta(min_length=1)]
    stream: bool = False
    max_output_tokens: Tokens | UnsetType = UNSET
    temperature: Temperature = 1.0
    top_p: TopP = 1.0
    seed: Seed | UnsetType = UNSET
    stop: StopText | Stops | UnsetType = UNSET
    fallback: str | UnsetType = UNSET

    @property
    def stops(self) -> tuple[str, ...]:
        if isinstance(self.stop, UnsetType):
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)

    @property
    def wanted_fallback(self) -> Fallback:
        return Fallback.UNKNOWN if isinstance(self.fallback, UnsetType) else Fallback(self.fallback)

    def tokens_wanted(self) -> int | None:
        given = self.max_output_tokens
        return None if isinstance(given, UnsetType) else given

    def seed_wanted(self) -> int | None:
        return None if isinstance(self.seed, UnsetType) else self.seed

    def turns(self) -> list[Message]:
        return [Message(turn.role, turn.content) for turn in self.messages]


_PLACE: Final = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_MISSING: Final = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_UNKNOWN: Final = re.compile(r"^Object contains unknown field `(?P<name>.*)`", re.DOTALL)


def parse_request(raw: bytes) -> GenerationRequest:
    """The request of one body.

    Raises:
        ApiError: invalid_request naming the parameter; nothing of the text is shown.
    """
    try:
        value = decode(raw)
    except BadJson as error:
        raise invalid(error.param or "body", error.reason) from None
    try:
        request = msgspec.convert(value, GenerationRequest)
    except msgspec.ValidationError as error:
        raise _refusal(str(error), value) from None
    _check_turns(request.messages)
    _check_numbers(request)
    for index, text in enumerate(request.stops):
        _refuse_nul(text, f"stop[{index}]")
    return request


def _refusal(text: str, value: Any) -> ApiError:
    """Our words for what the decoder found: place, what was expected, what to do."""
    found = _PLACE.search(text)
    path = found["path"] if found else ""
    reason = text[: found.start()] if found else text
    if missing := _MISSING.match(reason):
        return invalid(_join(path, missing["name"]), "missing; it is required")
    if unknown := _UNKNOWN.match(reason):
        name = _join(path, shown_name(unknown["name"]))
        return invalid(name, "not a parameter here; leave it out")
    hint = "; only text is taken here" if path.endswith("content") else ""
    if kinds := _part_kinds(path, value):
        hint = f"; parts such as {kinds} are not supported, send text as a string"
    return invalid(path or "body", f"{_plain(reason)}{hint}")


def _plain(reason: str) -> str:
    return reason[:1].lower() + reason[1:].replace("`", "")


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _part_kinds(path: str, value: Any) -> str:
    """Types of the parts a client sent as content, so that the refusal names them."""
    found = re.fullmatch(r"messages\[(\d+)\]\.content", path)
    if found is None:
        return ""
    parts = value["messages"][int(found[1])].get("content")
    if not isinstance(parts, list):
        return ""
    kinds = {
        shown_name(part["type"])
        for part in parts[:16]
        if isinstance(part, dict) and isinstance(part.get("type"), str)
    }
    return ", ".join(sorted(kinds - {"text"}) or sorted(kinds))


def _check_turns(turns: list[Turn]) -> None:
    for index, turn in enumerate(turns):
        if turn.role not in ("user", "assistant"):
            ours = " is set by Milena, not by clients; say it in a user turn"
            other = " is not taken here; use user or assistant"
            reason = ours if turn.role in ("system", "developer") else other
            raise invalid(f"messages[{index}].role", f"{shown_name(turn.role)}{reason}")
        _refuse_nul(turn.content, f"messages[{index}].content")
    last = len(turns) - 1
    if turns[last].role != "user":
        raise invalid(f"messages[{last}].role", "the last message must be the user's")
    if not turns[last].content.strip():
        raise invalid(f"messages[{last}].content", "blank; the last message must say something")


def _refuse_nul(text: str, param: str) -> None:
    # Other control characters are a person's own business; a NUL ends strings in other languages.
    if "\x00" in text:
        raise invalid(param, "holds U+0000; take it out")


def _check_numbers(request: GenerationRequest) -> None:
    if 0 < request.temperature < TEMPERATURE_MIN:
        raise invalid("temperature", f"must be 0, or from {TEMPERATURE_MIN} to 2")
    if not isinstance(request.fallback, UnsetType) and request.fallback not in ("accept", "wait"):
        raise invalid("fallback", "must be accept or wait")


def idempotency_key(values: list[bytes]) -> str:
    """The one key of a request that starts a generation: 1 to 255 visible ASCII characters.

    Raises:
        ApiError: missing, given twice, too long, or with other characters.
    """
    name = "Idempotency-Key"
    if not values:
        raise invalid(name, "missing; send a header of 1 to 255 visible ASCII characters")
    if len(values) > 1:
        raise invalid(name, "given more than once; send one")
    key = values[0]
    if not 1 <= len(key) <= 255 or any(not 0x21 <= mark <= 0x7E for mark in key):
        raise invalid(name, "must be 1 to 255 visible ASCII characters")
    return key.decode("ascii")
