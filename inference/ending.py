"""How an epoch's end is told: engine ends, failures and our own aborts in the words of the log.

Owns that one table. Pure: it aborts nothing and sends nothing.
"""

from enum import StrEnum
from typing import Final

import msgspec

from connectors.store.rows import Result, ResultStatus
from inference.engines.base import Done, EngineErrorKind
from inference.engines.base import FinishReason as EngineReason
from schemas.generated.types import FinishReason, Hold, StepRequest, Usage


class AbortCause(StrEnum):
    """Why the worker itself stopped an engine; the first one stays."""

    STOPPED = "stopped"  # a stop order, or the stream's STOP
    FULL = "full"  # the answer reached its bound of bytes
    DEADLINE = "deadline"  # the run's deadline passed and runs did not say so
    FENCED = "fenced"  # another epoch is current
    LAPSED = "lapsed"  # no heartbeat was acknowledged for too long
    DRAINED = "drained"  # the process ends


class Failure(msgspec.Struct, frozen=True):
    """An end without a Done: what the engine raised, or what kept it from starting."""

    reason: FinishReason


UNSTARTED: Final = Done(EngineReason.ABORTED, 0, 0, 0)
"""The end of an epoch that was aborted before its engine began."""
UNCOMPUTABLE: Final = Failure(FinishReason.FAILED)
"""No payload, another model's version, or a request that no engine can take."""

_BY_KIND: Final = {
    EngineErrorKind.TOO_LONG: FinishReason.TOO_LONG,
    EngineErrorKind.OUT_OF_MEMORY: FinishReason.FAILED,
    EngineErrorKind.BACKEND_ERROR: FinishReason.FAILED,
    EngineErrorKind.ENGINE_DEAD: FinishReason.BACKEND_DEAD,
}
_BY_CAUSE: Final = {
    AbortCause.STOPPED: FinishReason.STOPPED,
    AbortCause.FULL: FinishReason.LENGTH,
    AbortCause.DEADLINE: FinishReason.STOPPED,
    AbortCause.FENCED: FinishReason.STOPPED,
    AbortCause.LAPSED: FinishReason.BACKEND_DEAD,
    AbortCause.DRAINED: FinishReason.BACKEND_DEAD,
}
FAILURES: Final = frozenset({FinishReason.FAILED, FinishReason.TOO_LONG, FinishReason.BACKEND_DEAD})


def failure_of(kind: EngineErrorKind) -> Failure:
    """What an engine's error ends an epoch with."""
    return Failure(_BY_KIND[kind])


def finish_reason(end: Done | Failure, cause: AbortCause | None) -> FinishReason:
    """The reason told to runs. An end that came before our abort keeps its own."""
    if isinstance(end, Failure):
        return end.reason
    if cause is AbortCause.FULL:  # also where the engine was done: not all of its text is kept
        return FinishReason.LENGTH
    match end.reason:
        case EngineReason.STOP:
            return FinishReason.STOP
        case EngineReason.LENGTH:
            return FinishReason.LENGTH
        case EngineReason.ABORTED:
            # Aborted, but not by us: the engine was closed under its answers.
            return FinishReason.BACKEND_DEAD if cause is None else _BY_CAUSE[cause]


def usage_of(end: Done | Failure, input_tokens: int, output_tokens: int) -> Usage:
    """Tokens of the epoch. A failed engine tells none: then what was fed and seen, an estimate."""
    if isinstance(end, Done):
        return Usage(
            input_tokens=end.input_tokens,
            cached_input_tokens=end.cached_input_tokens,
            output_tokens=end.output_tokens,
        )
    return Usage(
        input_tokens=input_tokens,
        cached_input_tokens=0,
        output_tokens=output_tokens,
        estimated=input_tokens > 0,
    )


def final_row(
    step: StepRequest, text: str, reason: FinishReason, usage: Usage, ended_at_ms: int
) -> Result:
    """The worker's whole row of an epoch: text, which only the closer's row makes an end."""
    return Result(
        generation_id=step.spec.generation_id,
        user_id=step.user_id,
        status=ResultStatus.PERSISTING,
        model=step.spec.model,
        epoch=step.epoch,
        text=text,
        code_points=len(text),
        finish_reason=reason,
        error_code=None,
        partial=bool(text),
        input_tokens=usage.input_tokens,
        cached_input_tokens=usage.cached_input_tokens,
        output_tokens=usage.output_tokens,
        hold=Hold.CONSUMED,
        terminal_id=None,
        admitted_at_ms=step.admitted_at_ms,
        ended_at_ms=ended_at_ms,
    )
