"""One more edge beside a stack's own: other ports, other replies, own settings. Owns what it is told."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ops.stack.beside import Beside, free_ports
from ops.stack.plan import environment
from ops.stack.probes import HOST
from ops.stack.settings import read_settings
from topics.partition import partition_of
from topics.registry import EDGES

FIRST_NAME: Final = "edge-0"


class SecondEdge(Beside):
    """`number` 1 and up: two of one number share their replies."""

    def __init__(
        self, env: Mapping[str, str], number: int, settings: Mapping[str, str], logs: Path
    ) -> None:
        self.port, operator_port = free_ports(2)
        partitions = EDGES.partitions(local=True)
        replies = (partition_of(FIRST_NAME, partitions) + number) % partitions
        told = {
            **env,
            **environment(read_settings(env), with_registry=False),
            "MILENA_EDGE_PORT": str(self.port),
            "MILENA_EDGE_OPERATOR_PORT": str(operator_port),
            "MILENA_EDGE_REPLY_PARTITION": str(replies),
            "MILENA_PROCESS_OPERATOR_PORT": str(operator_port),
            "MILENA_PROCESS_INCARNATION_NAME": f"edge-{number}",
            **settings,
        }
        command = [sys.executable, "-m", "edge"]
        super().__init__(command, told, operator_port, logs / f"edge-{number}.log")

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def operator_url(self) -> str:
        return f"http://{HOST}:{self.operator_port}"
