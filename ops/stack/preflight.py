"""Looks at the machine before a start: each finding is one line that says what to do.

It changes nothing. `milena up` refuses on a finding that is `needed`; `milena doctor` shows all.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import psutil

from ops.stack import redis
from ops.stack.artifacts import ARTIFACTS, cached
from ops.stack.java import SERVICE_JAVA, find_java
from ops.stack.plan import CLOSER_PORT, INFRA, MACHINE_PORTS, POOL_PORTS
from ops.stack.ports import holder, taken
from ops.stack.settings import StackSettings, port_variable

GIB = 1 << 30
MEMORY_INFRA_BYTES = int(2.5 * GIB)
MEMORY_ALL_BYTES = 4 * GIB
DISK_BYTES = 2 * GIB
NODE_LEAST = 20
PORTS_OF = {
    "kafka": ("kafka", "kafka_controller"),
    "cassandra": ("cassandra", "cassandra_storage"),
    "redis": ("redis",),
    "registry": ("registry", "registry_management"),
}


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked at. `fix` says what to do where it is not `ok`."""

    name: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True


def inspect(
    settings: StackSettings,
    env: Mapping[str, str],
    *,
    infra_only: bool = False,
    running: bool = False,
) -> list[Finding]:
    """Everything a start of the settings' parts needs. `running`: its ports are its own."""
    wanted = wanted_infra(settings)
    found = [_python(), *_java(wanted, env), *_maven(settings, wanted, env)]
    if "redis" in wanted:
        found.append(_redis(env))
    if not infra_only and not settings.parts:
        found.append(_node(env))
    if not running:
        found += _ports(settings, wanted, infra_only=infra_only)
        found.append(_memory(infra_only or bool(settings.parts)))
    found += [_disk("data", settings.data), _disk("cache", settings.cache)]
    return found


def wanted_infra(settings: StackSettings) -> set[str]:
    """The parts that are not ours and are to be started."""
    return set(INFRA) if not settings.parts else set(INFRA) & set(settings.parts)


def _python() -> Finding:
    return Finding(name="python", ok=True, detail=platform.python_version())


def _java(wanted: set[str], env: Mapping[str, str]) -> Iterator[Finding]:
    for service, wants in SERVICE_JAVA.items():
        if service not in wanted:
            continue
        java = find_java(service, env)
        optional = service == "registry"
        otherwise = "; without it schema ids come from the committed snapshot" if optional else ""
        yield Finding(
            name=f"java for {service}",
            ok=java is not None,
            needed=not optional,
            detail=f"{java.major} ({java.binary})" if java else f"no {wants} found",
            fix=f"install {wants}, or set JAVA_HOME to one{otherwise}",
        )


def _maven(settings: StackSettings, wanted: set[str], env: Mapping[str, str]) -> Iterator[Finding]:
    names = [name for name in ARTIFACTS if name in wanted]
    missing = [name for name in names if cached(ARTIFACTS[name], settings.cache) is None]
    maven = shutil.which("mvn", path=env.get("PATH", ""))
    yield Finding(
        name="maven",
        ok=maven is not None,
        needed=bool(missing),
        detail=maven or "no mvn on PATH",
        fix="install it: apt-get install maven"
        + (f" (to fetch {', '.join(missing)})" if missing else ""),
    )
    yield Finding(
        name="artifacts",
        ok=not missing,
        needed=False,
        detail=f"{settings.cache}: "
        + (f"{', '.join(missing)} to be fetched" if missing else "all fetched"),
        fix="nothing: the next start fetches them",
    )


def _redis(env: Mapping[str, str]) -> Finding:
    found = redis.installed_version(env.get("PATH", ""))
    least = ".".join(map(str, redis.VERSION_LEAST))
    if found is None:
        return Finding(
            name="redis",
            ok=False,
            detail=f"no {redis.BINARY} on PATH",
            fix=f"install it: apt-get install {redis.BINARY}",
        )
    version = ".".join(map(str, found[1]))
    return Finding(
        name="redis",
        ok=found[1] >= redis.VERSION_LEAST,
        detail=f"{version} ({found[0]})",
        fix=f"install Redis {least} or newer",
    )


def _node(env: Mapping[str, str]) -> Finding:
    node = shutil.which("node", path=env.get("PATH", ""))
    version = _told_version([node, "--version"]) if node else None
    return Finding(
        name="node",
        ok=version is not None and version >= NODE_LEAST,
        needed=False,
        detail=f"{version} ({node})" if version else "no node on PATH",
        fix=f"install Node {NODE_LEAST} or newer to build the page",
    )


def _told_version(command: list[str]) -> int | None:
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"\d+", told.stdout)
    return int(found.group()) if found else None


def _ports(settings: StackSettings, wanted: set[str], *, infra_only: bool) -> Iterator[Finding]:
    ports = msgspec.structs.asdict(settings.ports)
    named = [(name, ports[name]) for part in INFRA if part in wanted for name in PORTS_OF[part]]
    if not infra_only and not settings.parts:
        named += [(name, ports[name]) for name in ("edge", "edge_operator")]
        ours = {**MACHINE_PORTS, "closer": CLOSER_PORT, **POOL_PORTS}
        if not settings.scripted:
            del ours["scripted"]
        named += [(name, settings.port_base + offset) for name, offset in ours.items()]
    busy = [(name, port) for name, port in named if taken(port)]
    if not busy:
        yield Finding(name="ports", ok=True, detail=f"all {len(named)} free")
    for name, port in busy:
        own = f"{port_variable(name)}, or all with " if name in ports else ""
        yield Finding(
            name=f"port {port}",
            ok=False,
            detail=f"wanted by {name}, taken by {holder(port)}",
            fix=f"stop that, or move this port with {own}MILENA_PORT_BASE",
        )


def _memory(few: bool) -> Finding:
    wants = MEMORY_INFRA_BYTES if few else MEMORY_ALL_BYTES
    has = psutil.virtual_memory().available
    return Finding(
        name="memory",
        ok=has >= wants,
        detail=f"{has / GIB:.1f} GiB available, {wants / GIB:.1f} needed",
        fix="end other programs or use a larger machine",
    )


def _disk(name: str, folder: Path) -> Finding:
    present = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(present).free
    writable = os.access(present, os.W_OK)
    variable = "MILENA_DATA" if name == "data" else "MILENA_STACK_CACHE"
    return Finding(
        name=f"{name} folder",
        ok=writable and free >= DISK_BYTES,
        detail=f"{folder}, {free / GIB:.1f} GiB free" + ("" if writable else ", not writable"),
        fix=f"point {variable} to a folder of yours with {DISK_BYTES / GIB:.0f} GiB free",
    )
