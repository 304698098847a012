"""Redis, found on PATH: configuration, start, health. It holds streams for minutes, no records.

A snapshot now and then lets a restarted stack go on with what is still young; nothing needs it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from ops.stack.files import write_atomically
from ops.stack.part import NotReady, Part
from ops.stack.probes import HOST, exchange
from ops.stack.settings import StackSettings

BINARY = "redis-server"
VERSION_LEAST = (7, 0)
NO_EVICTION = b"*2\r\n$16\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"
# A full or failing disk must not refuse writes: the store has everything that has to last.
CONFIGURATION = """\
bind {host}
port {port}
protected-mode yes
daemonize no
dir "{home}"
dbfilename dump.rdb
appendonly no
save 900 1 300 1000
stop-writes-on-bgsave-error no
maxmemory {memory_mb}mb
maxmemory-policy noeviction
enable-debug-command local
loglevel notice
"""


def configuration(settings: StackSettings) -> str:
    """The whole redis.conf."""
    return CONFIGURATION.format(
        host=HOST,
        port=settings.ports.redis,
        home=settings.data / "redis",
        memory_mb=settings.redis_memory_mb,
    )


def installed_version(path: str) -> tuple[Path, tuple[int, ...]] | None:
    """The server on PATH and its version, or None where there is none that answers."""
    binary = shutil.which(BINARY, path=path)
    if binary is None:
        return None
    try:
        told = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"v=(\d+(?:\.\d+)*)", told.stdout)
    if found is None:
        return None
    return Path(binary), tuple(int(number) for number in found.group(1).split("."))


def parts(settings: StackSettings, binary: Path) -> list[Part]:
    """The one server."""
    home = settings.data / "redis"
    home.mkdir(parents=True, exist_ok=True)
    write_atomically(home / "redis.conf", configuration(settings))
    return [
        Part(
            name="redis",
            command=(str(binary), str(home / "redis.conf")),
            ready=lambda: ready(settings.ports.redis),
            watch=lambda: watch(settings.ports.redis),
            port=settings.ports.redis,
            stop_s_max=5.0,
        )
    ]


async def watch(port: int) -> None:
    """A cheap look: PING."""
    await exchange(port, b"PING\r\n", b"+PONG\r\n")


async def ready(port: int) -> None:
    """Ready when it answers PING and evicts nothing."""
    await watch(port)
    try:
        await exchange(port, b"CONFIG GET maxmemory-policy\r\n", NO_EVICTION)
    except NotReady as other:
        raise NotReady("it evicts keys: maxmemory-policy is not noeviction") from other
