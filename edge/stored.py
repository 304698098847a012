"""A stored answer as a reader sees it: one snapshot and the terminal, or one JSON document. Pure.

Owns the words of an end that came from the store. Never reads the store.
"""

from typing import Any, Final

import msgspec

from connectors.redis.layout import Entry, parse_id
from connectors.store import Result, ResultStatus
from edge.errors import CATALOGUE, ErrorCode
from edge.sse import EntryId, Framer
from schemas.generated.types import Code

ACTIONS: Final[dict[Code, str]] = {
    Code.MODEL_BACKEND_ERROR: "manual_regenerate",
    Code.GENERATION_TIMEOUT: "manual_regenerate",
    Code.CAPACITY_EXHAUSTED: "wait",
    Code.QUOTA_SERVICE_UNAVAILABLE: "wait",
    Code.CONTENT_MODERATED: "none",
    Code.INVALID_REQUEST: "none",
}
WITHDRAWN: Final = "content_moderated"


def usage_of(row: Result) -> dict[str, int]:
    return {
        "input_tokens": row.input_tokens,
        "cached_input_tokens": row.cached_input_tokens,
        "output_tokens": row.output_tokens,
    }


def output_of(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


def error_code(row: Result) -> Code:
    return row.error_code or Code.MODEL_BACKEND_ERROR


def terminal_of(row: Result) -> tuple[str, dict[str, Any]]:
    """Event (without its prefix) and data of a final row's end."""
    usage = usage_of(row)
    match row.status:
        case ResultStatus.COMPLETED:
            reason = row.finish_reason.value if row.finish_reason else "stop"
            return "completed", {"usage": usage, "finish_reason": reason}
        case ResultStatus.CANCELLED:
            return "cancelled", {"usage": usage}
        case ResultStatus.STOPPED:
            return "stopped", {"usage": usage}
        case ResultStatus.MODERATED:
            return "error", {"code": WITHDRAWN, "action": "none", "partial": False}
        case ResultStatus.FAILED | ResultStatus.PERSISTING:
            code = error_code(row)
            action = ACTIONS.get(code, "manual_regenerate")
            return "error", {"code": code.value, "action": action, "partial": row.partial}


def stored_end(row: Result, framer: Framer, last: EntryId) -> list[tuple[Entry, bytes]]:
    """Items for one reader: the whole text without an id, then the terminal with its own."""
    if row.status is ResultStatus.MODERATED:
        first, fields = "retract", {"category": "moderated"}
    else:
        first, fields = "snapshot", {"text": row.text}
    event, data = terminal_of(row)
    whole = Entry(*last, first, msgspec.json.encode(fields))
    items = [(whole, framer.own(last[1], first, fields))]
    raw = msgspec.json.encode(data)
    if row.terminal_id is None:
        return [*items, (Entry(*last, event, raw), framer.own(last[1], event, data))]
    epoch, sequence = parse_id(row.terminal_id)
    end = Entry(epoch, sequence, event, raw)
    return [*items, (end, framer.entry(epoch, sequence, event, raw))]


def document(
    generation_id: str, status: str, model: str, text: str, finish_reason: str | None,
    usage: dict[str, int],
) -> dict[str, Any]:
    """The answer in one piece."""
    return {
        "id": generation_id,
        "status": status,
        "model": model,
        "output": output_of(text) if text else [],
        "finish_reason": finish_reason,
        "usage": usage,
    }


def failure(code: Code) -> ErrorCode:
    """The catalogue's code for a failed end; those without a status of their own are the
    model's."""
    known = ErrorCode(code.value) if code.value in ErrorCode.__members__.values() else None
    if known is None or CATALOGUE[known].status is None:
        return ErrorCode.MODEL_BACKEND_ERROR
    return known
