"""Installs Redis through the system's packages when this process may do so; else it leaves it."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Mapping

from ops.stack import redis

INSTALL_S_MAX = 300.0
APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=60")


async def redis_server(env: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Does nothing where a server is installed, no root is at work, or there is no apt-get."""
    path = env.get("PATH")
    if redis.installed_version(path) is not None:
        return
    if os.geteuid() != 0 or shutil.which(APT[0], path=path) is None:
        return
    say("redis            installing redis-server with apt-get")
    install = ("install", "--no-install-recommends", redis.BINARY)
    if not await _apt(*install):
        # A machine whose package lists were never read knows no package at all.
        await _apt("update")
        await _apt(*install)


async def _apt(*words: str) -> bool:
    process = await asyncio.create_subprocess_exec(
        *APT,
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        process_group=0,
    )
    try:
        return await asyncio.wait_for(process.wait(), INSTALL_S_MAX) == 0
    except TimeoutError:
        return False
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
