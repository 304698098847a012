"""What a reader of a generation's events knows: the text as it must be shown, and how it ended. Pure.

The same rules as any client's: a delta goes at its offset, a snapshot replaces, a reset drops, a
retract takes everything back. Offsets count code points, as Python's strings do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

PREFIX: Final = "generation."
STATUS_OF_TERMINAL: Final = {
    "completed": "completed",
    "cancelled": "cancelled",
    "stopped": "stopped",
    "error": "failed",
}


class Gap(Exception):
    """Text before this event is missing: the stream must be read from its start."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One generation as seen so far. `status` is a word of the HTTP interface; `usage` counts tokens."""

    generation_id: str = ""
    status: str = "queued"
    position: int | None = None
    text: str = ""
    notices: tuple[str, ...] = ()
    ended: bool = False
    usage: Mapping[str, int] | None = None
    finish_reason: str | None = None
    error_code: str | None = None


def apply(answer: Answer, event: str, data: Mapping[str, Any]) -> Answer:
    """The answer after one more event. Unknown events change nothing: new ones may come.

    Raises:
        Gap: a delta or reset beyond the text that is known.
    """
    kind = event.removeprefix(PREFIX)
    replace = msgspec.structs.replace
    match kind:
        case "created":
            return replace(answer, generation_id=data["generation_id"], status=data["status"])
        case "queued":
            return replace(answer, position=data.get("position"))
        case "text.delta":
            text = _until(answer.text, data["offset"]) + data["delta"]
            return replace(answer, status="running", text=text)
        case "snapshot":
            return replace(answer, status="running", text=data["text"])
        case "reset":
            return replace(answer, text=_until(answer.text, data["offset"]))
        case "retract":
            return replace(answer, text="", notices=(*answer.notices, "content_moderated"))
        case "notice":
            return replace(answer, notices=(*answer.notices, data["code"]))
        case _ if kind in STATUS_OF_TERMINAL:
            return replace(
                answer,
                ended=True,
                status=_status(kind, data),
                usage=data.get("usage"),
                finish_reason=data.get("finish_reason"),
                error_code=data.get("code"),
            )
        case _:
            return answer


def _status(kind: str, data: Mapping[str, Any]) -> str:
    return "moderated" if data.get("code") == "content_moderated" else STATUS_OF_TERMINAL[kind]


def _until(text: str, offset: int) -> str:
    if offset > len(text):
        raise Gap
    return text[:offset]


def unseen(shown: str, text: str) -> str | None:
    """What must be written after `shown`; None where `shown` is no longer the beginning."""
    return text[len(shown) :] if text.startswith(shown) else None
