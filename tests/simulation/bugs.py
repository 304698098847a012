"""Seeded bugs: each turns one safety off in the running code, and the simulation must find it.

Owns the switches. A patch lives as long as one run; nothing of the code under test changes for it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import msgspec

from processors import stored
from processors.admission.state import Account
from processors.shell import Shell
from processors.transport.fence import Fence
from processors.transport.rebuild import Rebuild

Patch = Callable[[ExitStack], None]


class Bug(msgspec.Struct, frozen=True):
    """`within`: so many seeds at most until it is found."""

    name: str
    within: int
    seeds_it: Patch
    plan: str = "default"


def _on(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.enter_context(patch.object(owner, name, value))


async def _unanswered(self: Shell[Any], partition: int, strangers: Any) -> None:
    """A stranger's record is left as the last."""


def _last_wins(self: Rebuild, key: bytes, value: bytes | None, seq: int | None) -> None:
    self._kept[key] = (seq or 0, value)


BUGS: Final[tuple[Bug, ...]] = (
    # The first seed that finds it, when measured: 1, 0, 2, 2, 1, 86.
    Bug("answers-lost", 20, lambda s: _on(s, stored, "answered_at", lambda *_: ())),
    Bug("identity-forgotten", 10, lambda s: _on(s, Account, "find", lambda *_: None)),
    Bug("last-record-wins", 40, lambda s: _on(s, Rebuild, "put", _last_wins)),
    Bug("late-left", 40, lambda s: _on(s, Rebuild, "late", lambda _: [])),
    Bug("strangers-left", 20, lambda s: _on(s, Shell, "put_again", _unanswered)),
    Bug("no-fence", 160, lambda s: _on(s, Fence, "broken", lambda *_: False)),
)
BY_NAME: Final = {bug.name: bug for bug in BUGS}


@contextmanager
def seeded(name: str) -> Iterator[None]:
    """The bug is in the code while the block runs."""
    with ExitStack() as stack:
        BY_NAME[name].seeds_it(stack)
        yield
