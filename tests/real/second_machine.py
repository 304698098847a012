"""One more instance of a machine beside a stack's own: its group shares the partitions between them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final

from ops.stack.fresh import FreshStack
from ops.stack.plan import environment
from ops.stack.second_edge import free_ports, says_ready
from ops.stack.settings import read_settings

COME_S_MAX: Final = 60.0
STOP_S_MAX: Final = 15.0
_LOOK_S: Final = 0.05


class SecondMachine:
    """`with SecondMachine(stack, "metering", "metering-1") as one`: gone at the end."""

    def __init__(
        self, stack: FreshStack, machine: str, name: str, settings: Mapping[str, str] | None = None
    ) -> None:
        (self.port,) = free_ports(1)
        self.log = stack.data / f"{name}.log"
        env = {
            **stack.env,
            **environment(read_settings(stack.env), with_registry=False),
            "MILENA_PROCESS_OPERATOR_PORT": str(self.port),
            "MILENA_PROCESS_INCARNATION_NAME": name,
            **(settings or {}),
        }
        with self.log.open("ab") as log:
            command = [sys.executable, "-m", "processors", machine]
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def __enter__(self) -> "SecondMachine":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.hurt(signal.SIGCONT)
            self.process.kill()
        self.process.wait()

    def hurt(self, number: signal.Signals) -> None:
        os.kill(self.process.pid, number)

    def folds(self) -> None:
        """Returns once it says that its table is whole."""
        deadline = time.monotonic() + COME_S_MAX
        while not says_ready(self.port):
            assert self.process.poll() is None, self.log.read_text()[-2_000:]
            assert time.monotonic() < deadline, "it does not fold"
            time.sleep(_LOOK_S)

    def ended(self, s_max: float = STOP_S_MAX) -> int:
        """Its exit code."""
        return self.process.wait(s_max)
