"""Settings of a worker: `MILENA_INFERENCE_…` and its share of `MILENA_PROCESS_…`."""

from typing import Literal

import msgspec

from connectors.store.rows import TEXT_BYTES_MAX
from topics.errors import SettingsError


class InferenceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How one worker claims, writes and ends. Seconds unless the name says otherwise."""

    flush_ms: int = 250
    """Between two appends of one answer; the first comes at once."""
    idle_ms: int = 1_000
    """Between two looks at the stream while there is no text, so that a stop is seen."""
    read_ahead_max: int = 256
    """Requests of one lane read and not claimed."""
    claim_retry_ms: int = 500
    """An unanswered claim is sent again after this, then ever later up to 2 s."""
    heartbeat_s: float = 2.0
    drain_s: float = 20.0
    """What runs at SIGTERM may go on for this long."""
    deadline_grace_ms: int = 1_000
    """Past the run's deadline a worker stops by itself this much later: runs says it first."""
    payload_wait_s: float = 10.0
    """After the grant, for a payload that neither Redis nor the store could answer for."""
    last_append_s: float = 2.0
    """For the last text of an answer; what is not shown then, the closer completes."""
    answer_bytes_max: int = 4_194_304
    """UTF-8 bytes of one answer: a longer one ends there with `length`, so that a row can hold it."""
    ending_max: int = 256
    """Answers computed but not yet stored and told; at this many nothing new is claimed."""
    pause_at: Literal["", "row", "finished"] = ""
    """For tests of kills, refused outside `local`: each answer waits `pause_s` before its row is
    written, or before `Finished` is told, and says so in the log and a gauge."""
    pause_s: float = 5.0

    def __post_init__(self) -> None:
        if not 20 <= self.flush_ms <= 10_000:
            raise ValueError("flush_ms must be from 20 to 10000")
        if not self.flush_ms <= self.idle_ms <= 10_000:
            raise ValueError("idle_ms must be from flush_ms to 10000")
        if not 1 <= self.read_ahead_max <= 10_000:
            raise ValueError("read_ahead_max must be from 1 to 10000")
        if not 0.1 <= self.heartbeat_s <= 3.0:
            raise ValueError("heartbeat_s must be from 0.1 to 3: a lease lasts 10")
        if not 1 <= self.answer_bytes_max <= TEXT_BYTES_MAX:
            raise ValueError(f"answer_bytes_max must be from 1 to {TEXT_BYTES_MAX}: a row's bound")
        if not 0.0 < self.pause_s <= 60.0:
            raise ValueError("pause_s must be above 0, at most 60")
        if not 0.0 <= self.drain_s <= 300.0:
            raise ValueError("drain_s must be from 0 to 300")

    def refuse_outside(self, local: bool) -> None:
        """
        Raises:
            SettingsError: a setting for tests where people are served.
        """
        if self.pause_at and not local:
            raise SettingsError("MILENA_INFERENCE_PAUSE_AT is for tests on one machine only")
