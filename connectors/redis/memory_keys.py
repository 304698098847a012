"""The keys of a Redis in memory: hashes, streams and strings with their lives.

Owns the data and its ends. Knows no command, no script, no connection and no clock of its own.
"""

from collections.abc import Callable, Sequence
from typing import Final

from redis.exceptions import ResponseError

from connectors.redis.layout import EntryId, format_id

Answer = bytes | int | None | list["Answer"]
Hash = dict[str, bytes]
TOO_SMALL: Final = (
    "ERR The ID specified in XADD is equal or smaller than the target stream top item"
)


class Stream:
    """Entries oldest first, and the highest id it ever had."""

    __slots__ = ("entries", "last")

    def __init__(self) -> None:
        self.entries: dict[EntryId, tuple[bytes, ...]] = {}
        self.last: EntryId = (0, 0)

    @property
    def top(self) -> EntryId | None:
        return next(reversed(self.entries), None)


class Keyspace:
    """`now_us` is the clock of lives and of TIME, in microseconds of the epoch."""

    def __init__(self, now_us: Callable[[], int]) -> None:
        self.now_us = now_us
        self._values: dict[str, Hash | Stream | bytes] = {}
        self._until_ms: dict[str, int] = {}
        self.publish: Callable[[str, bytes], int] = lambda channel, message: 0

    def now_ms(self) -> int:
        return self.now_us() // 1_000

    # --- what scripts use

    def hash(self, key: str) -> Hash | None:
        value = self._living(key)
        if value is None or isinstance(value, dict):
            return value
        raise _wrong_type()

    def stream(self, key: str) -> Stream | None:
        value = self._living(key)
        if value is None or isinstance(value, Stream):
            return value
        raise _wrong_type()

    def exists(self, key: str) -> bool:
        return self._living(key) is not None

    def put_fields(self, key: str, *pairs: bytes) -> None:
        """HSET; makes the hash where it is missing and leaves its life alone."""
        fields = self.hash(key)
        if fields is None:
            fields = {}
            self._values[key] = fields
        for name, value in zip(pairs[::2], pairs[1::2], strict=True):
            fields[name.decode()] = value

    def live_for(self, key: str, ttl_ms: int) -> bool:
        """PEXPIRE: False where there is no such key."""
        if not self.exists(key):
            return False
        if ttl_ms <= 0:
            self.delete(key)
        else:
            self._until_ms[key] = self.now_ms() + ttl_ms
        return True

    def add(self, key: str, entry_id: EntryId, pairs: Sequence[bytes]) -> bool:
        """XADD; False, and nothing made, where the id is not above every one there ever was."""
        stream = self.stream(key)
        if entry_id <= ((0, 0) if stream is None else stream.last):
            return False
        if stream is None:
            stream = Stream()
            self._values[key] = stream
        stream.entries[entry_id] = tuple(pairs)
        stream.last = entry_id
        return True

    def range(self, key: str, after: EntryId | None, count: int) -> Answer:
        """XRANGE from the first entry after an id, `count` at most."""
        stream = self.stream(key)
        found: list[Answer] = []
        for entry_id, pairs in () if stream is None else stream.entries.items():
            if len(found) == count:
                break
            if after is None or entry_id > after:
                found.append([format_id(*entry_id).encode(), [*pairs]])
        return found

    def delete(self, key: str) -> bool:
        self._until_ms.pop(key, None)
        return self._values.pop(key, None) is not None

    def _living(self, key: str) -> Hash | Stream | bytes | None:
        until_ms = self._until_ms.get(key)
        if until_ms is not None and self.now_ms() > until_ms:
            self.delete(key)
        return self._values.get(key)

    # --- what plain commands use

    def names(self) -> list[str]:
        """Every key that lives now."""
        return [key for key in [*self._values] if self.exists(key)]

    def flush(self) -> None:
        self._values.clear()
        self._until_ms.clear()

    def get(self, key: str) -> bytes | None:
        value = self._living(key)
        if value is None or isinstance(value, bytes):
            return value
        raise _wrong_type()

    def set(self, key: str, value: bytes, ttl_ms: int | None = None) -> None:
        self.delete(key)
        self._values[key] = value
        if ttl_ms is not None:
            self.live_for(key, ttl_ms)

    def ttl_ms(self, key: str) -> int:
        """PTTL: -2 without a key, -1 without an end."""
        if not self.exists(key):
            return -2
        return self._until_ms[key] - self.now_ms() if key in self._until_ms else -1

    def trim(self, key: str, length: int) -> int:
        """XTRIM MAXLEN: how many entries went; the stream stays, empty or not."""
        stream = self.stream(key)
        gone = 0
        while stream is not None and len(stream.entries) > length:
            del stream.entries[next(iter(stream.entries))]
            gone += 1
        return gone


def _wrong_type() -> ResponseError:
    return ResponseError("WRONGTYPE Operation against a key holding the wrong kind of value")
