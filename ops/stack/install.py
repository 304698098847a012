"""Installs Redis through the system's packages when this process may do so; else it leaves it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping

from ops.stack import redis

INSTALL_S_MAX = 300.0
APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=60")


async def redis_server(env: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Does nothing where a server is installed, no root is at work, or there is no apt-get."""
    path = env.get("PATH", "")
    if redis.installed_version(path) is not None:
        return
    if os.geteuid() != 0 or shutil.which(APT[0], path=path) is None:
        return
    say("redis            installing redis-server with apt-get")
    install = ("install", "--no-install-recommends", redis.BINARY)
    if not await _apt(env, *install):
        # A machine whose package lists were never read knows no package at all.
        await _apt(env, "update")
        await _apt(env, *install)


async def _apt(env: Mapping[str, str], *words: str) -> bool:
    # In a thread and a group of its own: Ctrl-C must not cut an installation in half.
    return await asyncio.to_thread(_run, (*APT, *words), env)


def _run(command: tuple[str, ...], env: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**env, "DEBIAN_FRONTEND": "noninteractive"},
            process_group=0,
            timeout=INSTALL_S_MAX,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
