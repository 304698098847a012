"""From the bytes a model makes to text that may be shown: whole characters, no stop string.

Owns the two rules every engine shares, as sans-I/O state machines. The result depends on the
bytes alone, never on how they were cut into tokens. Invalid bytes inside are dropped, and so is a
last character that was never finished; nothing is ever replaced by U+FFFD.
"""

import codecs
from collections.abc import Sequence


class StopStrings:
    """Cuts text before the first stop string, and holds back what may become one.

    The stop string that is complete first wins; of two that end together, the longer. What was
    returned is never taken back.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = tuple(stop)
        self._held = ""
        self.met = False

    def feed(self, text: str) -> str:
        """Text that may be shown now; "" once a stop string was met."""
        if self.met:
            return ""
        if not self._stop:
            return text
        text = self._held + text
        ends = [
            (start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0
        ]
        if ends:
            self.met, self._held = True, ""
            return text[: min(ends)[1]]
        keep = self._partial(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was held back in vain: the end came first, so it is text."""
        held, self._held = self._held, ""
        return held

    def _partial(self, text: str) -> int:
        """Length of the longest end of the text that begins a stop string."""
        most = min(len(text), max(map(len, self._stop)) - 1)
        for length in range(most, 0, -1):
            tail = text[-length:]
            if any(stop.startswith(tail) for stop in self._stop):
                return length
        return 0


class TextSplitter:
    """Bytes in, text out: an incremental UTF-8 decoder before the stop strings."""

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._stops = StopStrings(stop)

    @property
    def stopped(self) -> bool:
        """True once a stop string was met: nothing more will be shown."""
        return self._stops.met

    def feed(self, data: bytes) -> str:
        """Text that may be shown now."""
        return self._stops.feed(self._decoder.decode(data))

    def finish(self) -> str:
        """The rest at the end of the answer, without an unfinished character."""
        self._decoder.reset()
        return self._stops.finish()
