"""Finds a Java runtime for each service among JAVA_HOME, the system's JVM folder and PATH.

It reads what is installed and never installs anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

JVM_ROOT = Path("/usr/lib/jvm")
VERSION_S_MAX = 10.0


class JavaRange(msgspec.Struct, frozen=True):
    """Major versions a service runs on, both ends included."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"Java {self.least}" if self.least == self.most else f"Java {self.least} or newer"


class Java(msgspec.Struct, frozen=True):
    """One runtime: its `java` binary and its major version."""

    binary: Path
    major: int


# What the projects support; the upper ends are the newest ones the pinned versions were run on.
SERVICE_JAVA = {
    "kafka": JavaRange(17, 25),
    "cassandra": JavaRange(17, 17),
    "registry": JavaRange(21, 99),
}


def find_java(service: str, env: Mapping[str, str], root: Path = JVM_ROOT) -> Java | None:
    """The oldest runtime that fits the service, as that one is closest to what was tested."""
    wanted = SERVICE_JAVA[service]
    fitting = [j for j in installed(env, root) if wanted.least <= j.major <= wanted.most]
    return min(fitting, key=lambda j: j.major, default=None)


def installed(env: Mapping[str, str], root: Path = JVM_ROOT) -> list[Java]:
    """Every runtime found, each real binary once, in order of preference."""
    seen: dict[Path, Java] = {}
    for binary in _binaries(env, root):
        real = binary.resolve()
        if real in seen:
            continue
        major = _major(real)
        if major is not None:
            seen[real] = Java(binary=real, major=major)
    return list(seen.values())


def _binaries(env: Mapping[str, str], root: Path) -> Iterator[Path]:
    homes = [Path(env["JAVA_HOME"])] if env.get("JAVA_HOME") else []
    homes += sorted(root.iterdir()) if root.is_dir() else []
    for home in homes:
        if (home / "bin" / "java").is_file():
            yield home / "bin" / "java"
    on_path = shutil.which("java", path=env.get("PATH", ""))
    if on_path:
        yield Path(on_path)


def _major(binary: Path) -> int | None:
    """From the runtime's `release` file, which costs no process; else by asking it."""
    release = binary.parent.parent / "release"
    if release.is_file():
        found = re.search(r'(?m)^JAVA_VERSION="(\d+)', release.read_text(errors="replace"))
        if found:
            return int(found.group(1))
    try:
        asked = subprocess.run(
            [str(binary), "-version"], capture_output=True, text=True, timeout=VERSION_S_MAX
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', asked.stderr)
    return int(found.group(1)) if found else None
