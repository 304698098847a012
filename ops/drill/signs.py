"""How one sees that a fault struck. Owns the looks at processes and parts; does nothing to them."""

from __future__ import annotations

import asyncio
import http.client
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from ops.drill.ground import Ground
from ops.stack import cassandra, kafka, redis
from ops.stack.part import NotReady
from ops.stack.probes import HOST

LOOK_S_MAX: Final = 2.0
_WATCHES: Final = {"kafka": kafka.watch, "cassandra": cassandra.watch, "redis": redis.watch}


def stopped(pid: int) -> bool:
    """The kernel says that the process stands still."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def answers(ground: Ground, part: str) -> bool:
    """Whether a part says anything at all: on its operator port, or in its own protocol."""
    port = ground.stack.part(part).port
    assert port is not None, f"{part} listens somewhere"
    watch = _WATCHES.get(part)
    if watch is None:
        return await asyncio.to_thread(status_of, port) is not None
    try:
        await watch(port)
    except NotReady:
        return False
    return True


def status_of(operator_port: int) -> int | None:
    """What `/readyz` answers there; None where nothing does."""
    asked = http.client.HTTPConnection(HOST, operator_port, timeout=LOOK_S_MAX)
    try:
        asked.request("GET", "/readyz")
        return asked.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        asked.close()


def metric(operator_port: int, name: str, **labels: str) -> float:
    """The sum of all samples of a name with these labels; 0 where there is none."""
    asked = http.client.HTTPConnection(HOST, operator_port, timeout=LOOK_S_MAX)
    try:
        asked.request("GET", "/metrics")
        text = asked.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return 0.0
    finally:
        asked.close()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )


def log_tail(ground: Ground, part: str, since: int) -> str:
    """What a part wrote after so many bytes of its log."""
    path = ground.stack.data / "logs" / f"{part}.log"
    with path.open("rb") as file:
        file.seek(since)
        return file.read(1_048_576).decode("utf-8", "replace")


def log_size(ground: Ground, part: str) -> int:
    return (ground.stack.data / "logs" / f"{part}.log").stat().st_size
