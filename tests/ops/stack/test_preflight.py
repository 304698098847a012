"""Each thing that is missing is one line that says what to do."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import msgspec
import psutil
import pytest

from ops.stack import java, preflight
from ops.stack.preflight import Finding, inspect
from ops.stack.settings import StackSettings
from ops.stack.up import Refused, refuse


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a machine with nothing on it."""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    monkeypatch.setattr(preflight, "find_java", lambda service, env: None)
    return {"PATH": str(nothing)}


def test_a_bare_machine(settings: StackSettings, bare: dict[str, str]) -> None:
    wrong = {finding.name: finding for finding in inspect(settings, bare) if not finding.ok}
    needed = {name for name, finding in wrong.items() if finding.needed}
    assert {"java for kafka", "java for cassandra", "maven", "redis"} <= needed
    assert {"java for registry", "node", "artifacts"} & needed == set()
    assert all(finding.fix and "\n" not in finding.fix for finding in wrong.values())
    assert wrong["java for cassandra"].detail == "no Java 17 found"
    assert "without it schema ids come from" in wrong["java for registry"].fix
    assert wrong["maven"].fix == (
        "install it: apt-get install maven (to fetch kafka, cassandra, registry)"
    )
    assert wrong["redis"].fix == "install it: apt-get install redis-server"


def test_only_what_is_wanted_is_looked_at(settings: StackSettings, bare: dict[str, str]) -> None:
    chosen = msgspec.structs.replace(settings, parts=("redis",))
    names = {finding.name for finding in inspect(chosen, bare)}
    assert not [name for name in names if name.startswith("java")]
    assert "redis" in names


def test_an_old_redis(settings: StackSettings, tmp_path: Path) -> None:
    _program(tmp_path / "redis-server", 'echo "Redis server v=6.2.7 sha=0:0 malloc=x bits=64"')
    found = {f.name: f for f in inspect(settings, {"PATH": str(tmp_path)})}
    assert not found["redis"].ok
    assert found["redis"].detail.startswith("6.2.7 (")
    assert found["redis"].fix == "install Redis 7.0 or newer"


def test_a_taken_port_names_its_part_its_holder_and_its_variable(settings: StackSettings) -> None:
    with socket.create_server(("127.0.0.1", settings.ports.kafka)):
        found = [f for f in inspect(settings, {}) if f.name == f"port {settings.ports.kafka}"]
    assert len(found) == 1
    assert found[0].detail.startswith("wanted by kafka, taken by ")
    assert found[0].fix == (
        "stop that, or move this port with MILENA_STACK_KAFKA_PORT, or all with MILENA_PORT_BASE"
    )


def test_ports_are_not_looked_at_where_the_stack_itself_has_them(settings: StackSettings) -> None:
    with socket.create_server(("127.0.0.1", settings.ports.kafka)):
        found = [f.name for f in inspect(settings, {}, running=True)]
    assert not [name for name in found if name.startswith("port")]


def test_too_little_memory(settings: StackSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    class Little:
        available = 3 << 30

    monkeypatch.setattr(psutil, "virtual_memory", Little)
    (memory,) = [f for f in inspect(settings, {}) if f.name == "memory"]
    assert not memory.ok
    assert memory.detail == "3.0 GiB available, 4.0 needed"
    (memory,) = [f for f in inspect(settings, {}, infra_only=True) if f.name == "memory"]
    assert memory.ok


def test_a_refusal_has_a_line_for_each_reason() -> None:
    def finding(name: str, *, ok: bool, needed: bool) -> Finding:
        return Finding(name=name, ok=ok, detail="none found", fix="install it", needed=needed)

    refuse([finding("redis", ok=True, needed=True), finding("node", ok=False, needed=False)])
    with pytest.raises(Refused) as refused:
        refuse([finding("redis", ok=False, needed=True), finding("maven", ok=False, needed=True)])
    assert str(refused.value).splitlines() == [
        "error: redis: none found: install it",
        "error: maven: none found: install it",
    ]


def test_the_words_for_a_range_of_versions() -> None:
    assert str(java.SERVICE_JAVA["cassandra"]) == "Java 17"
    assert str(java.SERVICE_JAVA["registry"]) == "Java 21 or newer"


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
