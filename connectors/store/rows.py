"""Typed rows of the store and the timestamps they compete with. Pure."""

from enum import IntEnum, StrEnum
from typing import Final

import msgspec

from connectors.errors import RowTooLarge
from schemas.generated.types import Api, Code, FinishReason, Hold, Tier

EPOCH_MAX: Final = 100
"""A run has at most this many epochs; the closer's write may take the next ones."""
_EPOCHS_IN_A_MS: Final = 124
TEXT_BYTES_MAX: Final = 7 * 1_048_576
"""UTF-8 bytes of one row's text or body; a statement over 8 MiB is refused by the store."""


class RowPhase(IntEnum):
    """Which of one epoch's writes of a row wins: the higher."""

    PLACEHOLDER = 0
    PARTIAL = 1
    FINAL = 2


def row_timestamp(admitted_at_ms: int, epoch: int, phase: RowPhase) -> int:
    """Write timestamp in microseconds of a row that epochs compete for: a higher epoch wins, then
    a higher phase, whatever arrives last.

    Raises:
        ValueError: an epoch that would reach into the next millisecond.
    """
    if not 0 <= epoch <= _EPOCHS_IN_A_MS:
        raise ValueError(f"epoch {epoch} is out of bounds")
    return admitted_at_ms * 1_000 + epoch * 8 + phase


def fit_text(text: str) -> str:
    """The text, or as much of its beginning as a row can hold, cut between code points."""
    if 4 * len(text) <= TEXT_BYTES_MAX:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= TEXT_BYTES_MAX else raw[:TEXT_BYTES_MAX].decode("utf-8", "ignore")


def check_size(content: str | bytes) -> None:
    """
    Raises:
        RowTooLarge: no row can hold this.
    """
    cut = fit_text(content) if isinstance(content, str) else content[:TEXT_BYTES_MAX]
    if len(cut) < len(content):
        raise RowTooLarge(f"over {TEXT_BYTES_MAX} bytes")


class ResultStatus(StrEnum):
    """Status of a result in the API's words. `persisting`: a worker's, which ends nothing."""

    PERSISTING = "persisting"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    FAILED = "failed"
    MODERATED = "moderated"


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A request's private part and who owns it. `body` is JSON `{"messages": …, "stop": …}`."""

    generation_id: str
    user_id: str
    runs_key: str
    api: Api
    model: str
    model_version: str
    body: bytes
    created_at_ms: int


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. Written whole by a worker (its epoch, `persisting`) and by the closer (closing
    epoch, final status); only a row of the closer ends anything. Times in UTC epoch milliseconds.
    """

    generation_id: str
    user_id: str
    status: ResultStatus
    model: str
    epoch: int
    text: str
    code_points: int
    finish_reason: FinishReason | None
    error_code: Code | None
    partial: bool
    """Some text was shown."""
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    hold: Hold
    terminal_id: str | None
    """`<epoch>-<sequence>` of the stream's terminal; None in a worker's row."""
    admitted_at_ms: int
    ended_at_ms: int | None

    @property
    def ended(self) -> bool:
        return self.status is not ResultStatus.PERSISTING


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """An API key; only its hash is kept."""

    key_hash: bytes
    key_id: str
    user_id: str
    tier: Tier
    name: str
    created_at_ms: int
    revoked_at_ms: int | None = None
