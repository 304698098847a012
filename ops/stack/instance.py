"""One more instance of a machine beside a stack's own: its group shares the partitions between them.

Owns what it is told: a folder, a port and a name of its own.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from typing import Final

from ops.stack.beside import Beside, free_ports
from ops.stack.fresh import DidNotCome, FreshStack
from ops.stack.plan import environment
from ops.stack.settings import read_settings

START_S_MAX: Final = 60.0


class Instance(Beside):
    """Its name is its static membership: two of one name fence each other."""

    def __init__(
        self, stack: FreshStack, machine: str, name: str, settings: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        (operator_port,) = free_ports(1)
        folder = stack.data / "beside" / name
        folder.mkdir(parents=True, exist_ok=True)
        told = {
            **stack.env,
            **environment(read_settings(stack.env), with_registry=False),
            "MILENA_DATA": str(folder),
            "MILENA_PROCESS_OPERATOR_PORT": str(operator_port),
            "MILENA_PROCESS_INCARNATION_NAME": name,
            **(settings or {}),
        }
        command = [sys.executable, "-m", "processors", machine]
        super().__init__(command, told, operator_port, stack.data / "logs" / f"{name}.log")

    def fold(self, s_max: float = START_S_MAX) -> None:
        """Starts it and blocks until it folds.

        Raises:
            DidNotCome: it ended, or not in time.
        """
        self.start()
        if not self.came(s_max):
            self.stop(signal.SIGKILL)
            raise DidNotCome(f"{self.name} does not fold, see {self.log}")
