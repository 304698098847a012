"""Redis, found on PATH: configuration, start, health. It holds streams for minutes, no records.

A snapshot now and then lets a restarted stack go on with what is still young; nothing needs it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import redis.asyncio
from redis.exceptions import RedisError

from ops.stack.files import write_atomically
from ops.stack.part import NotReady, Part
from ops.stack.probes import HOST, exchange
from ops.stack.settings import StackSettings

BINARY = "redis-server"
VERSION_LEAST = (7, 0)
ANSWER_S_MAX = 2.0
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
            watch=lambda: exchange(settings.ports.redis, b"PING\r\n", b"+PONG"),
            port=settings.ports.redis,
            stop_s_max=5.0,
        )
    ]


async def ready(port: int) -> None:
    """Ready when it answers PING and evicts nothing."""
    client = redis.asyncio.Redis(
        host=HOST, port=port, socket_timeout=ANSWER_S_MAX, socket_connect_timeout=ANSWER_S_MAX
    )
    try:
        await client.ping()
        policy = (await client.config_get("maxmemory-policy"))["maxmemory-policy"]
    except (RedisError, OSError) as error:
        raise NotReady(f"no answer from port {port}") from error
    finally:
        await client.aclose()
    if policy not in ("noeviction", b"noeviction"):
        raise NotReady("it evicts keys: maxmemory-policy is not noeviction")
