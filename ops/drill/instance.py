"""One more instance of a machine beside the stack's own, as a fleet has many. Owns that one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Final

from ops.drill import signs
from ops.stack.fresh import DidNotCome, FreshStack
from ops.stack.plan import environment
from ops.stack.second_edge import free_ports
from ops.stack.settings import read_settings

START_S_MAX: Final = 60.0
STOP_S_MAX: Final = 15.0
OK: Final = 200


class Instance:
    """`start`, then `stop`. Its name is its static membership: two of one name fence each other."""

    def __init__(self, stack: FreshStack, machine: str, name: str) -> None:
        self.name = name
        (self.operator_port,) = free_ports(1)
        self.log = stack.data / "logs" / f"{name}.log"
        folder = stack.data / "beside" / name
        folder.mkdir(parents=True, exist_ok=True)
        self._command = [sys.executable, "-m", "processors", machine]
        self._env = {
            **stack.env,
            **environment(read_settings(stack.env), with_registry=False),
            "MILENA_DATA": str(folder),
            "MILENA_PROCESS_OPERATOR_PORT": str(self.operator_port),
            "MILENA_PROCESS_INCARNATION_NAME": name,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, s_max: float = START_S_MAX) -> None:
        """Blocks until it folds.

        Raises:
            DidNotCome: it ended, or not in time.
        """
        self.launch()
        if not signs.until(lambda: self.ready or not self.running, s_max) or not self.running:
            self.stop(signal.SIGKILL)
            raise DidNotCome(f"{self.name} does not fold, see {self.log}")

    def launch(self) -> None:
        """Starts it and returns at once."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, env=self._env, stdout=log, stderr=log)

    @property
    def ready(self) -> bool:
        return signs.status_of(self.operator_port) == OK

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code, negative for a signal; SIGKILL past the deadline."""
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            os.kill(process.pid, number)
            deadline = time.monotonic() + STOP_S_MAX
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            if process.poll() is None:
                process.kill()
        return process.wait()
