"""The language of the scripted engine: what a test wants said, how fast, and what goes wrong.

Owns reading a script out of the last user message and cutting it into tokens. It knows no clock.
"""

import re

import msgspec

from connectors.tokens import Message
from inference.engines.base import EngineError, EngineErrorKind

WORDS_MAX = 200_000
TOKENS_PER_S_MAX = 1_000_000.0

_WORD = re.compile(r"\S+\s*|\s+")


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """At most one of `text`, `words`, `tokens` and `bytes` says what is emitted; none: nothing.

    `text` is cut into words with the space behind them, `words` is a count of numbered words,
    `tokens` are taken as they are, `bytes` are tokens in hex that need not be whole characters.
    The first token comes after `prefill_ms`, the others at `tokens_per_s`. After `fail_at` tokens
    the engine fails, after `hang_at` it makes no more and waits to be aborted.
    """

    text: str | None = None
    words: int | None = None
    tokens: tuple[str, ...] | None = None
    hexes: tuple[str, ...] | None = msgspec.field(name="bytes", default=None)
    tokens_per_s: float = 50.0
    prefill_ms: float = 100.0
    cached_tokens: int = 0
    fail_at: int | None = None
    hang_at: int | None = None
    tool_calls: tuple[msgspec.Raw, ...] = ()

    def __post_init__(self) -> None:
        said = (self.text, self.words, self.tokens, self.hexes)
        counts = (self.words, self.cached_tokens, self.fail_at, self.hang_at)
        if (
            sum(part is not None for part in said) > 1
            or any(count is not None and count < 0 for count in counts)
            or (self.words or 0) > WORDS_MAX
            or not 0.0 < self.tokens_per_s <= TOKENS_PER_S_MAX
            or not 0.0 <= self.prefill_ms <= 3_600_000.0
        ):
            raise ValueError("out of bounds")

    def pieces(self) -> list[bytes]:
        """The bytes of every token, in order. Raises ValueError for hex that is none."""
        if self.hexes is not None:
            return [bytes.fromhex(piece) for piece in self.hexes]
        if self.tokens is not None:
            return [piece.encode(errors="ignore") for piece in self.tokens]
        if self.words is not None:
            return [b"word%d " % number for number in range(1, self.words + 1)]
        words = _WORD.findall(self.text or "")
        return [word.encode(errors="ignore") for word in words]


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    script: msgspec.Raw


_ENVELOPES = msgspec.json.Decoder(_Envelope)
_SCRIPTS = msgspec.json.Decoder(Script)


def read_script(messages: tuple[Message, ...]) -> tuple[Script, list[bytes]]:
    """The script in the last user message and its tokens; without one, an echo of the message.

    Raises EngineError (`backend_error`) for a script that cannot be played.
    """
    content = next((m.content for m in reversed(messages) if m.role == "user"), "")
    try:
        raw = _ENVELOPES.decode(content).script
    except (msgspec.MsgspecError, UnicodeEncodeError):
        echo = Script(text=content)
        return echo, echo.pieces()
    try:
        script = _SCRIPTS.decode(raw)
        pieces = script.pieces()
    except (msgspec.MsgspecError, ValueError):
        # The parser's own message may quote what a person wrote.
        raise EngineError(EngineErrorKind.BACKEND_ERROR, "the script is not valid") from None
    if script.tool_calls:
        raise EngineError(EngineErrorKind.BACKEND_ERROR, "scripted tool calls are not supported")
    return script, pieces
