"""Becomes a part of the stack: ties its life to the supervisor's, then runs the part's command.

Started as `python -I -S child.py <supervisor pid> command…`. The kernel sends SIGTERM to it when
the supervisor dies, even by SIGKILL, so no part outlives the stack unnoticed. It stays a file of
its own without imports from the project, because it runs once per part before every start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def become(parent: int, command: list[str]) -> None:
    """Replaces this process by the command, or ends with what hinders that."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            # It died between the fork and the line above: nobody would ever stop the part.
            sys.exit("the supervisor is gone")
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
