"""One more edge beside a stack's own, as a fleet has many: other ports, other replies, own settings.

Owns that one process. The stack knows nothing of it, starts nothing again and stops without it.
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ops.stack.plan import environment
from ops.stack.probes import HOST
from ops.stack.settings import read_settings
from topics.partition import partition_of
from topics.registry import EDGES

FIRST_NAME: Final = "edge-0"
STOP_S_MAX: Final = 15.0
_CALL_S_MAX: Final = 2.0


class SecondEdge:
    """`start`, look at `ready`, `stop`. `number` 1 and up: two of one number share their replies."""

    def __init__(
        self, env: Mapping[str, str], number: int, settings: Mapping[str, str], logs: Path
    ) -> None:
        self.port, self.operator_port = free_ports(2)
        self.log = logs / f"edge-{number}.log"
        partitions = EDGES.partitions(local=True)
        replies = (partition_of(FIRST_NAME, partitions) + number) % partitions
        told = read_settings(env)
        self.env = {
            **env,
            **environment(told, with_registry=False),
            "MILENA_EDGE_PORT": str(self.port),
            "MILENA_EDGE_OPERATOR_PORT": str(self.operator_port),
            "MILENA_EDGE_REPLY_PARTITION": str(replies),
            "MILENA_PROCESS_OPERATOR_PORT": str(self.operator_port),
            "MILENA_PROCESS_INCARNATION_NAME": f"edge-{number}",
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def operator_url(self) -> str:
        return f"http://{HOST}:{self.operator_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def ready(self) -> bool:
        """The edge itself says that a generation can be served."""
        return says_ready(self.operator_port)

    def start(self) -> None:
        """Starts it and returns at once."""
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "edge"]
            self._process = subprocess.Popen(command, env=self.env, stdout=log, stderr=log)

    def hurt(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stop(self) -> int:
        """SIGTERM, then SIGKILL past the deadline; the exit code, negative for a signal."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
        return self._process.wait()

    def came(self, deadline_s: float, look_s: float) -> bool:
        """True once it is ready; False where it ended or the deadline (monotonic) passed."""
        while self.running and time.monotonic() < deadline_s:
            if self.ready:
                return True
            time.sleep(look_s)
        return False


def says_ready(operator_port: int) -> bool:
    """What one edge answers on its operator port."""
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
