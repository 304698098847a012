"""A stored answer as a reader sees it: one snapshot and the terminal, or one JSON document. Pure.

Owns the form of an end that comes from the store; its words are the closer's own. Never reads
the store.
"""

from typing import Any, Final

import msgspec

from connectors.closer.closing import terminal_data
from connectors.redis.layout import Entry, EntryId, parse_id
from connectors.store import Result, ResultStatus
from edge.errors import CATALOGUE, ApiError, ErrorCode
from edge.sse import Framer
from schemas.generated.types import Code

_EVENTS: Final = {
    ResultStatus.COMPLETED: "completed",
    ResultStatus.CANCELLED: "cancelled",
    ResultStatus.STOPPED: "stopped",
    ResultStatus.FAILED: "error",
    ResultStatus.MODERATED: "error",
}
STATUS_OF_EVENT: Final = {
    "completed": "completed",
    "cancelled": "cancelled",
    "stopped": "stopped",
    "error": "failed",
}


def usage_of(row: Result) -> dict[str, int]:
    return {
        "input_tokens": row.input_tokens,
        "cached_input_tokens": row.cached_input_tokens,
        "output_tokens": row.output_tokens,
    }


def output_of(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}] if text else []


def stored_end(row: Result, framer: Framer, last: EntryId) -> list[tuple[Entry, bytes]]:
    """Items for one reader that has `last`: the whole text without an id, then the terminal with
    its own. `row` has ended."""
    withdrawn = row.status is ResultStatus.MODERATED
    first = "retract" if withdrawn else "snapshot"
    fields = {"category": "moderated"} if withdrawn else {"text": row.text}
    data = (
        b'{"code":"content_moderated","action":"none","partial":false}'
        if withdrawn
        else terminal_data(row)
    )
    whole = Entry(*last, first, msgspec.json.encode(fields))
    event = _EVENTS[row.status]
    items = [(whole, framer.own(last[1], first, whole.data))]
    if row.terminal_id is None:
        return [*items, (Entry(*last, event, data), framer.own(last[1], event, data))]
    epoch, sequence = parse_id(row.terminal_id)
    end = framer.entry(epoch, sequence, event, data)
    return [*items, (Entry(epoch, sequence, event, data), end)]


def document(
    generation_id: str,
    status: str,
    model: str,
    text: str,
    finish_reason: str | None,
    usage: Any,
) -> dict[str, Any]:
    """The answer in one piece."""
    return {
        "id": generation_id,
        "status": status,
        "model": model,
        "output": output_of(text),
        "finish_reason": finish_reason,
        "usage": usage,
    }


def row_document(row: Result) -> dict[str, Any]:
    """The answer in one piece, from an ended row that did not fail."""
    reason = row.finish_reason.value if row.finish_reason else None
    text = "" if row.status is ResultStatus.MODERATED else row.text
    return document(row.generation_id, row.status.value, row.model, text, reason, usage_of(row))


def failed(code: str, generation_id: str, partial: bool) -> ApiError:
    """A failed end as an HTTP error. What was shown is kept, and read by the generation's id."""
    known = ErrorCode(code) if code in set(ErrorCode) else ErrorCode.MODEL_BACKEND_ERROR
    if known is ErrorCode.INTERNAL or CATALOGUE[known].status is None:
        known = ErrorCode.MODEL_BACKEND_ERROR
    # The catalogue's `retryable` holds here as well: what failed for want of capacity was never
    # granted, so its key is decided afresh; all others find the same end again.
    return ApiError(
        known,
        details={"generation_id": generation_id, "status": "failed", "partial": partial},
    )


def row_failed(row: Result) -> ApiError:
    return failed(
        (row.error_code or Code.MODEL_BACKEND_ERROR).value, row.generation_id, row.partial
    )
