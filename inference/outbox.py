"""One answer's text between the engine and its stream: what to append, when, and what an answer
of the stream means for the next try.

Owns sequence, offsets and pacing of one epoch as a state machine. Sans I/O: time (seconds of
`elapsed_s`) and answers come in. It decides nothing about the engine and knows no Redis.
"""

from enum import StrEnum
from typing import Final

import msgspec

from connectors.redis.writer import AppendCode, Appended
from connectors.store.rows import TEXT_BYTES_MAX
from inference.chunks import SNAPSHOT, TEXT_DELTA, delta_json, snapshot_json

OPENING_RETRY_S: Final = 0.02
"""First pause while the closer has not opened the stream; doubles up to the flush pause."""
LOST_PROBE_S: Final = 2.0
"""A stream that is not open after this long is asked about."""
PROBE_EVERY_S: Final = 1.0


class Pace(msgspec.Struct, frozen=True):
    """Seconds between appends: with text, and without (so that a stop is seen in prefill)."""

    flush_s: float = 0.25
    idle_s: float = 1.0


class Append(msgspec.Struct, frozen=True):
    """One call of the writer. `data` None only asks; `end` is shown once it succeeded."""

    sequence: int
    event: str
    data: bytes | None
    pieces: int
    end: int


class Verdict(StrEnum):
    """What an answer of the stream asks of the generation."""

    GO_ON = "go_on"
    STOP = "stop"
    FENCED = "fenced"


class Outbox:
    """Text of one epoch, `bytes_max` UTF-8 bytes at most. Offsets and lengths are Unicode code
    points."""

    def __init__(self, pace: Pace, now_s: float, bytes_max: int = TEXT_BYTES_MAX) -> None:
        self._pace = pace
        self._bytes_left = bytes_max
        self.full = False
        """Text was dropped: the answer is at its bound of bytes."""
        self._pieces: list[str] = []  # made, not yet appended
        self._shown: list[str] = []  # appended
        self._made_points = 0
        self._shown_points = 0
        self._sequence = 1
        self._unknown: Append | None = None
        self._snapshot_due = False
        self._due_s = now_s
        self._idle_due_s = now_s + pace.idle_s
        self._opening_retry_s = OPENING_RETRY_S
        self._lost_since_s: float | None = None
        self._probe_due_s = 0.0

    @property
    def code_points(self) -> int:
        """Length of the text made so far."""
        return self._made_points

    @property
    def pending(self) -> bool:
        """True while something must still be appended."""
        return bool(self._pieces) or self._snapshot_due or self._unknown is not None

    def text(self) -> str:
        """The whole text made so far."""
        return "".join(self._shown) + "".join(self._pieces)

    def add(self, text: str) -> bool:
        """Takes new text, or as much of it as the bound allows; True where nothing waited before,
        so that a sleeper must look again."""
        text = self._fitting(text)
        first = bool(text) and not self._pieces
        if text:
            self._pieces.append(text)
        self._made_points += len(text)
        return first

    def _fitting(self, text: str) -> str:
        if self.full:
            return ""
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) > self._bytes_left:
            self.full = True
            return raw[: self._bytes_left].decode("utf-8", "ignore")
        self._bytes_left -= len(raw)
        return text

    def due_s(self) -> float:
        """When the next append is due."""
        return self._due_s if self.pending else self._idle_due_s

    def take(self) -> Append:
        """The next append. One whose fate is unknown is repeated byte by byte."""
        if self._unknown is not None:
            return self._unknown
        pieces, sequence = len(self._pieces), self._sequence
        if self._snapshot_due:
            data, event = snapshot_json(self.text()), SNAPSHOT
        elif pieces:
            data, event = delta_json(self._shown_points, "".join(self._pieces)), TEXT_DELTA
        else:
            # Only a check: it names the last entry there is, and takes no number.
            return Append(sequence - 1, TEXT_DELTA, None, 0, self._shown_points)
        return Append(sequence, event, data, pieces, self._made_points)

    def settle(self, append: Append, answer: Appended, now_s: float) -> Verdict:
        """What became of an append that began at `now_s`."""
        match answer.code:
            case AppendCode.OK | AppendCode.STOP:
                self._applied(append, answer.missing, now_s)
            case AppendCode.FENCED:
                return Verdict.FENCED
            case AppendCode.LOST:
                self._lost(now_s)
            case AppendCode.AWAY:
                # It may have been applied: the same number must not carry other bytes.
                self._unknown = append if append.data is not None else self._unknown
                self._again(now_s, self._pace.flush_s)
            case AppendCode.FULL:
                self._again(now_s, self._pace.flush_s)
        # A full Redis tells a stop all the same.
        stopped = answer.code is AppendCode.STOP or answer.stop is not None
        return Verdict.STOP if stopped else Verdict.GO_ON

    def skip(self, append: Append, now_s: float) -> None:
        """The number holds an entry that is not ours: go on behind it with the whole text."""
        self._sequence, self._unknown = append.sequence + 1, None
        self._snapshot_due = True
        self._again(now_s, self._pace.flush_s)

    def probe_due(self, now_s: float) -> bool:
        """True where a lost stream must be asked about now: counts as asked."""
        if self._lost_since_s is None or now_s < self._probe_due_s:
            return False
        self._probe_due_s = now_s + PROBE_EVERY_S
        return True

    def _applied(self, append: Append, missing: bool, now_s: float) -> None:
        self._lost_since_s = None
        self._opening_retry_s = OPENING_RETRY_S
        self._again(now_s, self._pace.flush_s)
        if append.data is not None:
            self._unknown = None
            self._sequence = append.sequence + 1
            self._shown += self._pieces[: append.pieces]
            del self._pieces[: append.pieces]
            self._shown_points = append.end
            if append.event == SNAPSHOT:
                self._snapshot_due = False
                return
        if missing and self._sequence > 1:
            self._snapshot_due = True
            self._due_s = now_s

    def _lost(self, now_s: float) -> None:
        if self._unknown is not None:
            # Its number may be taken; a snapshot may stand at any number behind it.
            self._sequence, self._unknown = self._unknown.sequence + 1, None
        opened = self._sequence > 1
        if self._lost_since_s is None:
            self._lost_since_s = now_s
            self._probe_due_s = now_s if opened else now_s + LOST_PROBE_S
        self._snapshot_due = opened
        self._again(now_s, self._pace.flush_s if opened else self._opening_retry_s)
        self._opening_retry_s = min(2 * self._opening_retry_s, self._pace.flush_s)

    def _again(self, now_s: float, pause_s: float) -> None:
        self._due_s = now_s + pause_s
        self._idle_due_s = now_s + self._pace.idle_s
