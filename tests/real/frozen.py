"""A worker that stands still, as after SIGSTOP: it holds what it has and takes nothing."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ops.stack.fresh import FreshStack

WORKER = "worker-scripted"


@contextmanager
def frozen_worker(stack: FreshStack) -> Iterator[Callable[[], None]]:
    """No worker of the scripted pool moves inside, until the given call lets it go on.

    Its lease lasts 10 s: be done before.
    """

    def thaw() -> None:
        stack.hurt(WORKER, signal.SIGCONT)

    stack.hurt(WORKER, signal.SIGSTOP)
    try:
        yield thaw
    finally:
        thaw()
