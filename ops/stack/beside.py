"""One process of ours beside a stack's own, as a fleet has many. Owns its start, its look and its end.

The stack knows nothing of it, starts nothing again and stops without it.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from ops.stack.probes import HOST

STOP_S_MAX: Final = 15.0
_CALL_S_MAX: Final = 2.0
_LOOK_S: Final = 0.05


class Beside:
    """`start`, look at `ready`, `stop`; as a context it is gone at the end."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], operator_port: int, log: Path
    ) -> None:
        self.env = dict(env)
        self.operator_port = operator_port
        self.log = log
        self._command = [*command]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ready(self) -> bool:
        """The process itself says that it serves."""
        return says_ready(self.operator_port)

    def start(self) -> None:
        """Starts it and returns at once."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self.env, stdout=log, stderr=log)

    def came(self, s_max: float) -> bool:
        """True once it is ready; False where it ended or the time passed. Blocks."""
        deadline_s = time.monotonic() + s_max
        while self.running and time.monotonic() < deadline_s:
            if self.ready:
                return True
            time.sleep(_LOOK_S)
        return False

    def hurt(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def ended(self, s_max: float = STOP_S_MAX) -> int:
        """The exit code of one that ends by itself, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: it does not.
        """
        assert self._process is not None, "started"
        return self._process.wait(s_max)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The signal, then SIGKILL past the deadline; the exit code, negative for a signal."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self._process.wait()


def says_ready(operator_port: int) -> bool:
    """What one process answers on its operator port."""
    asked = http.client.HTTPConnection(HOST, operator_port, timeout=_CALL_S_MAX)
    try:
        asked.request("GET", "/readyz")
        return asked.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        asked.close()


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, all different."""
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
