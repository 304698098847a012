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
    """`within`: so many seeds at most until it is found; `plan`: where it is looked for."""

    name: str
    within: int
    seeds_it: Patch
    plan: str = "default"


def patched(owner: Any, name: str, value: Any) -> Patch:
    """Something of the owner is something else while the bug is in."""
    return lambda stack: stack.enter_context(patch.object(owner, name, value))


async def _unanswered(self: Shell[Any], partition: int, strangers: Any) -> None:
    """A stranger's record is left as the last."""


def _last_wins(self: Rebuild, key: bytes, value: bytes | None, seq: int | None) -> None:
    self._kept[key] = (seq or 0, value)


BUGS: Final[tuple[Bug, ...]] = (
    # The first seed that finds it, when measured: 1, 0, 2, 2, 1, 86.
    Bug("answers-lost", 20, patched(stored, "answered_at", lambda *_: ())),
    Bug("identity-forgotten", 10, patched(Account, "find", lambda *_: None)),
    Bug("last-record-wins", 40, patched(Rebuild, "put", _last_wins)),
    Bug("late-left", 40, patched(Rebuild, "late", lambda _: [])),
    Bug("strangers-left", 20, patched(Shell, "put_again", _unanswered)),
    Bug("no-fence", 160, patched(Fence, "broken", lambda *_: False)),
)


@contextmanager
def seeded(bug: Bug) -> Iterator[None]:
    """The bug is in the code while the block runs."""
    with ExitStack() as stack:
        bug.seeds_it(stack)
        yield
