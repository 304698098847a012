"""How a generation's end looks: the row to keep, the entries to append. Pure.

Total over what was decided (`Ended`), what a reader has (`Shown`) and what the store has. It never
adds text: the worker's accepted row, or what was shown.
"""

from typing import Final

import msgspec

from connectors.redis.closer import Closing
from connectors.redis.layout import SEQUENCES_PER_EPOCH, format_id, parse_id
from connectors.redis.shown import Shown
from connectors.store.rows import Result, ResultStatus, fit_text
from schemas.generated.types import Closed, Code, Ended, FinishReason, Terminal
from topics.errors import NotSupported

_STATUS: Final = {
    Terminal.COMPLETED: ResultStatus.COMPLETED,
    Terminal.CANCELLED: ResultStatus.CANCELLED,
    Terminal.STOPPED: ResultStatus.STOPPED,
    Terminal.FAILED: ResultStatus.FAILED,
}
_EVENT: Final = {
    ResultStatus.COMPLETED: "completed",
    ResultStatus.CANCELLED: "cancelled",
    ResultStatus.STOPPED: "stopped",
    ResultStatus.FAILED: "error",
}
_ACTION: Final = {
    Code.MODEL_BACKEND_ERROR: "manual_regenerate",
    Code.GENERATION_TIMEOUT: "manual_regenerate",
    Code.CAPACITY_EXHAUSTED: "wait",
}


class Plan(msgspec.Struct, frozen=True):
    """One end. `closing` is None where Redis is away: the row can be kept, the terminal not yet."""

    row: Result
    write: bool
    """False where the store has this row already."""
    closing: Closing | None
    row_missing: bool
    """The worker's accepted row was not there; what was shown stands in."""


def plan(
    generation_id: str, number: int, ended: Ended, shown: Shown | None, row: Result | None
) -> Plan | None:
    """The end, or None where it cannot be known without Redis (`shown` None).

    A row of the closing epoch is an earlier try of ours: it stands, so that repeats agree.

    Raises:
        NotSupported: a terminal that this version does not make.
    """
    if ended.terminal not in _STATUS:
        raise NotSupported(f"terminal {ended.terminal.value}")
    if row is not None and row.epoch == ended.closing_epoch:
        return Plan(row, False, _closing(number, ended, shown, row), False)
    text = _text(ended, shown, row)
    if text is None:
        return None
    # What no row can hold is cut, and shown cut: a reader ends with the stored text.
    text = fit_text(text)
    missing = ended.keep_row and not _is_workers(row, ended)
    first = _first_sequence(ended, shown)
    terminal = first + 1 if _needs_snapshot(ended, shown, text) else first
    made = _row(generation_id, ended, text, format_id(ended.closing_epoch, terminal))
    return Plan(made, True, _closing(number, ended, shown, made), missing)


def closed(row: Result, closing_epoch: int) -> Closed:
    """What runs is told of the end."""
    return Closed(
        generation_id=row.generation_id,
        epoch=closing_epoch,
        partial=row.partial,
        code_points=row.code_points,
    )


def terminal_data(row: Result) -> bytes:
    """The terminal event's own data, compact JSON."""
    usage = {
        "input_tokens": row.input_tokens,
        "cached_input_tokens": row.cached_input_tokens,
        "output_tokens": row.output_tokens,
    }
    if row.status is ResultStatus.COMPLETED:
        return msgspec.json.encode({"usage": usage, "finish_reason": row.finish_reason})
    if row.status is ResultStatus.FAILED:
        code = row.error_code or Code.INTERNAL
        action = _ACTION.get(code, "none")
        return msgspec.json.encode({"code": code, "action": action, "partial": row.partial})
    return msgspec.json.encode({"usage": usage})


def _is_workers(row: Result | None, ended: Ended) -> bool:
    return row is not None and 0 < row.epoch == ended.text_epoch


def _text(ended: Ended, shown: Shown | None, row: Result | None) -> str | None:
    workers = row.text if row is not None and _is_workers(row, ended) else None
    if ended.keep_row and workers is not None:
        return workers
    if shown is None:
        return None
    if not (shown.exists and shown.whole) and workers is not None:
        # What was shown cannot be read any more; the row is text, if not an end.
        return workers
    return shown.text


def _needs_snapshot(ended: Ended, shown: Shown | None, text: str) -> bool:
    """Where a reader may have another text than the one that is kept."""
    if shown is None:
        return bool(text)
    if not shown.exists and ended.text_epoch > 0:
        # Readers may have text of a stream that is lost, unless surely none was made.
        return bool(text) or ended.usage.output_tokens > 0 or ended.usage.estimated
    return shown.text != text or not shown.whole


def _first_sequence(ended: Ended, shown: Shown | None) -> int:
    if shown is not None and shown.exists:
        return shown.last_sequence + 1
    if ended.text_epoch == 0:
        return 1  # nobody was ever granted, so nothing was ever numbered
    return ended.closing_epoch * SEQUENCES_PER_EPOCH


def _row(generation_id: str, ended: Ended, text: str, terminal_id: str) -> Result:
    status = _STATUS[ended.terminal]
    reason = ended.finish_reason
    return Result(
        generation_id=generation_id,
        user_id=ended.user_id,
        status=status,
        model=ended.model,
        epoch=ended.closing_epoch,
        text=text,
        code_points=len(text),
        finish_reason=None if reason is FinishReason.UNKNOWN else reason,
        error_code=(ended.code or Code.INTERNAL) if status is ResultStatus.FAILED else None,
        partial=bool(text),
        input_tokens=ended.usage.input_tokens,
        cached_input_tokens=ended.usage.cached_input_tokens,
        output_tokens=ended.usage.output_tokens,
        hold=ended.hold,
        terminal_id=terminal_id,
        admitted_at_ms=ended.admitted_at_ms,
        ended_at_ms=ended.ended_at_ms,
    )


def _closing(number: int, ended: Ended, shown: Shown | None, row: Result) -> Closing | None:
    if shown is None:
        return None
    _, terminal = parse_id(row.terminal_id or format_id(row.epoch, _first_sequence(ended, shown)))
    snapshot = _needs_snapshot(ended, shown, row.text)
    return Closing(
        epoch=ended.closing_epoch,
        number=number,
        last=(shown.last_epoch, shown.last_sequence) if shown.exists else None,
        snapshot_sequence=terminal - 1 if snapshot else None,
        snapshot_data=msgspec.json.encode({"text": row.text}) if snapshot else b"",
        terminal_sequence=terminal,
        event=_EVENT[row.status],
        data=terminal_data(row),
        status=row.status.value,
        user_id=ended.user_id,
        runs_key=ended.runs_key,
        admitted_at_ms=ended.admitted_at_ms,
    )
