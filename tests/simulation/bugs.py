"""Seeded bugs: each turns one safety off in the running code, and the simulation must find it.

Owns the switches. A patch lives as long as one run; nothing of the code under test changes for it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest.mock import patch

import msgspec

Patch = Callable[[ExitStack], None]


class Bug(msgspec.Struct, frozen=True):
    """`within`: so many seeds at most until it is found; `found` how many it took when measured."""

    name: str
    within: int
    seeds_it: Patch
    plan: str = "default"


def _on(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.enter_context(patch.object(owner, name, value))


BUGS: Final[tuple[Bug, ...]] = ()
BY_NAME: Final = {bug.name: bug for bug in BUGS}


@contextmanager
def seeded(name: str) -> Iterator[None]:
    """The bug is in the code while the block runs."""
    with ExitStack() as stack:
        BY_NAME[name].seeds_it(stack)
        yield
