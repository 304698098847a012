"""What a drill ran on: the machine and the versions of what took part. Owns the looking; judges nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil

from ops.stack.artifacts import ARTIFACTS
from ops.stack.redis import installed_version

PACKAGES: Final = (
    "faust-streaming",
    "aiokafka",
    "confluent-kafka",
    "scylla-driver",
    "msgspec",
)
CPU_INFO: Final = Path("/proc/cpuinfo")


def machine() -> dict[str, str]:
    """Words and values, in the order of a table."""
    memory = psutil.virtual_memory().total / 2**30
    told = {
        "processor": f"{_processor()}, {psutil.cpu_count() or 0} cores",
        "memory": f"{memory:.1f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
    }
    told |= {artifact.title: artifact.version for artifact in ARTIFACTS.values()}
    server = installed_version(os.environ.get("PATH", ""))
    told["Redis"] = ".".join(map(str, server[1])) if server else "not installed"
    return told | {name: _version(name) for name in PACKAGES}


def _processor() -> str:
    if CPU_INFO.is_file():
        for line in CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
