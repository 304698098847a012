"""Stops a running stack from outside: asks its supervisor, and waits until the lock is free."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from ops.stack.settings import StackError, StackSettings
from ops.stack.status import running_pid

DOWN_S_MAX = 40.0
POLL_S = 0.1


def down(settings: StackSettings) -> bool:
    """False when nothing ran.

    Raises:
        StackError: when it does not end in time.
    """
    pid = running_pid(settings)
    if pid is None:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + DOWN_S_MAX
    while running_pid(settings) == pid:
        if time.monotonic() > until:
            raise StackError(
                f"the stack (pid {pid}) did not stop within {DOWN_S_MAX:.0f} s: look into "
                f"{settings.logs}, or kill it with `kill -9 {pid}`; its parts follow it"
            )
        time.sleep(POLL_S)
    return True
