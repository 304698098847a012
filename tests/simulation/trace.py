"""What happened, in words and as one number. Owns the last steps and the digest; judges nothing."""

from collections import Counter, deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

KEPT: Final = 20_000


class Trace:
    """`say` is called for all that matters; two runs are the same when their digests are."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._hash = blake2b(digest_size=16)
        self._last: deque[tuple[float, str, str]] = deque(maxlen=KEPT)
        self.marks: Counter[str] = Counter()

    def say(self, who: str, what: str) -> None:
        at_s = self._now_s()
        self._hash.update(f"{at_s:.6f} {who} {what}\n".encode())
        self._last.append((at_s, who, what))

    def mark(self, name: str) -> None:
        """Something that must happen sometimes happened."""
        self.marks[name] += 1

    def digest(self, schedule: int) -> str:
        return f"{self._hash.hexdigest()}{schedule:08x}"

    def last(self, steps: int) -> list[str]:
        return [f"{at_s:10.4f}  {who:<14} {what}" for at_s, who, what in list(self._last)[-steps:]]
