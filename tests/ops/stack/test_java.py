"""A Java for each service, among what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.stack.java import find_java, installed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "jvm"


def test_the_oldest_that_fits_is_taken(root: Path) -> None:
    for version in ("11.0.2", "17.0.15", "21.0.1", "25"):
        _install(root / f"java-{version}", version)
    found = {name: find_java(name, {}, root) for name in ("kafka", "cassandra", "registry")}
    assert {name: java and java.major for name, java in found.items()} == {
        "kafka": 17,
        "cassandra": 17,
        "registry": 21,
    }


def test_none_fits(root: Path) -> None:
    _install(root / "java-21", "21.0.1")
    assert find_java("cassandra", {}, root) is None
    assert find_java("registry", {}, root) is not None


def test_java_home_and_path_count_and_links_count_once(root: Path, tmp_path: Path) -> None:
    home = _install(tmp_path / "mine", "17.0.1")
    root.mkdir()
    (root / "default-java").symlink_to(home)
    env = {"JAVA_HOME": str(home), "PATH": str(home / "bin")}
    assert [java.major for java in installed(env, root)] == [17]
    assert [java.major for java in installed({"PATH": str(home / "bin")}, tmp_path / "none")] == [
        17
    ]


def test_a_runtime_without_a_release_file_is_asked(root: Path) -> None:
    home = root / "odd"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.2\" 2024-01-16' >&2\n")
    java.chmod(0o755)
    assert [java.major for java in installed({}, root)] == [21]


def test_a_broken_runtime_is_passed_over(root: Path) -> None:
    home = root / "broken"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("not a program")
    assert installed({}, root) == []


def _install(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home
