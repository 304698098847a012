"""Redis comes through the system's packages where this process may install, and only there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ops.stack import install, redis

# Knows its packages only after an update, as on a machine that never had one.
APT = """#!/bin/sh
echo "$@" >> "{folder}/asked"
case "$*" in
    *update) /bin/touch "{folder}/lists" ;;
    *install*) [ -e "{folder}/lists" ] || exit 100
        printf '#!/bin/sh\\necho "Redis server v=7.0.15 sha=0"\\n' > "{folder}/redis-server"
        /bin/chmod +x "{folder}/redis-server" ;;
esac
"""


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    apt = tmp_path / "apt-get"
    apt.write_text(APT.format(folder=tmp_path))
    apt.chmod(0o755)
    return {"PATH": str(tmp_path)}


async def test_root_installs_it(bare: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    said: list[str] = []
    await install.redis_server(bare, said.append)
    found = redis.installed_version(bare["PATH"])
    assert found is not None
    assert found[1] == (7, 0, 15)
    assert len(said) == 1
    asked = (Path(bare["PATH"]) / "asked").read_text().splitlines()
    assert [line.split()[-1] for line in asked] == ["redis-server", "update", "redis-server"]
    await install.redis_server(bare, said.append)
    assert len(said) == 1


async def test_others_are_left_to_do_it(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    await install.redis_server(bare, pytest.fail)
    assert not (Path(bare["PATH"]) / "asked").exists()


async def test_a_system_without_apt_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    await install.redis_server({"PATH": str(tmp_path)}, pytest.fail)
