"""Records as they are: bytes in, bytes out. Owns nothing but not decoding.

Faust's own schema looks up codecs and settings for each record (a tenth of a machine's time), and takes a
record that it cannot decode, one without a value among them, for done. Here that is the shell's to judge.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from faust import Event, Schema


class Plain(Schema):  # type: ignore[misc]
    """Every record becomes an event."""

    def compile(self, app: Any, **_: Any) -> Callable[..., Awaitable[Event]]:
        async def decode(message: Any, *, propagate: bool = False) -> Event:
            return Event(app, message.key, message.value, message.headers, message)

        return decode
