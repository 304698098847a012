"""Fetching through a Maven of our own making: whole or not at all, and only as pinned."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from ops.stack import artifacts, fetch
from ops.stack.artifacts import ARTIFACTS, Artifact, cached, content, difference, folder_of, pinned
from ops.stack.fetch import fetch_all
from ops.stack.settings import StackError

FAKE_MAVEN = """#!/bin/sh
echo "$@" >> "{folder}/asked"
for word in "$@"; do
    case "$word" in -DoutputDirectory=*) out="${{word#-DoutputDirectory=}}";; esac
done
mkdir -p "$out"
{then}
"""


class Shelf:
    """A cache, one artifact, its pins and the Maven that brings it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.cache = folder, folder / "cache"
        self.said: list[tuple[str, str]] = []
        (folder / "bin").mkdir()
        (folder / "poms").mkdir()
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
        monkeypatch.setattr(artifacts, "POMS", folder / "poms")

    def stock(self, monkeypatch: pytest.MonkeyPatch, *, unpack: bool = False) -> Artifact:
        artifact = Artifact(name="kafka", title="Apache Kafka", version="1", unpack=unpack)
        monkeypatch.setitem(ARTIFACTS, "kafka", artifact)
        return artifact

    def pin(self, artifact: Artifact, name: str, content_of_it: bytes) -> None:
        digest = hashlib.sha256(content_of_it).hexdigest()
        artifact.lock.write_text(f"{digest}  {name}\n")

    def maven(self, then: str) -> None:
        program = self.folder / "bin" / "mvn"
        program.write_text(FAKE_MAVEN.format(folder=self.folder, then=then))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    async def fetch(self) -> None:
        await fetch_all(["kafka"], self.cache, lambda name, words: self.said.append((name, words)))

    def left(self) -> list[str]:
        return [path.name for path in self.cache.iterdir()]


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    return Shelf(tmp_path, monkeypatch)


async def test_it_is_fetched_once(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = shelf.stock(monkeypatch)
    shelf.pin(kafka, "kafka.jar", b"jar")
    shelf.maven('printf jar > "$out/kafka.jar"')
    await shelf.fetch()
    found = cached(kafka, shelf.cache)
    assert found is not None
    assert (content(found) / "kafka.jar").read_bytes() == b"jar"
    assert shelf.left() == [found.name]
    await shelf.fetch()
    assert (shelf.folder / "asked").read_text().count("\n") == 1


async def test_an_archive_is_unpacked(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = shelf.stock(monkeypatch, unpack=True)
    (shelf.folder / "app.jar").write_bytes(b"jar")
    archive = shelf.folder / "app.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(shelf.folder / "app.jar", "app.jar")
    shelf.pin(registry, "app.tar.gz", archive.read_bytes())
    shelf.maven(f'cp "{archive}" "$out/"')
    await shelf.fetch()
    found = cached(registry, shelf.cache)
    assert found is not None
    assert (content(found) / "app.jar").read_bytes() == b"jar"


@pytest.mark.parametrize(
    ("then", "reason"),
    [
        ('printf other > "$out/kafka.jar"', "kafka.jar has another hash"),
        ('printf jar > "$out/other.jar"', "kafka.jar is missing"),
        ('printf jar | tee "$out/kafka.jar" > "$out/more.jar"', "more.jar is not pinned"),
    ],
)
async def test_what_is_not_as_pinned_is_refused(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, then: str, reason: str
) -> None:
    shelf.pin(shelf.stock(monkeypatch), "kafka.jar", b"jar")
    shelf.maven(then)
    with pytest.raises(StackError, match=reason):
        await shelf.fetch()
    assert shelf.left() == []


async def test_a_failing_maven_is_one_line(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf.pin(shelf.stock(monkeypatch), "kafka.jar", b"jar")
    shelf.maven("echo '[INFO] x'; echo '[ERROR] no route to it'; echo '[ERROR] more'; exit 1")
    with pytest.raises(StackError) as failed:
        await shelf.fetch()
    assert str(failed.value) == "Maven could not fetch Apache Kafka 1: no route to it"
    assert shelf.left() == []


async def test_a_hanging_maven_is_ended(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "FETCH_S_MAX", 0.3)
    monkeypatch.setattr(fetch, "PROGRESS_S", 0.1)
    shelf.pin(shelf.stock(monkeypatch), "kafka.jar", b"jar")
    shelf.maven("exec sleep 60")
    with pytest.raises(StackError, match="not fetched within"):
        await shelf.fetch()
    assert ("kafka", "fetching, 0 MB") in shelf.said
    assert shelf.left() == []


async def test_what_a_killed_fetch_left_goes(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = shelf.stock(monkeypatch)
    shelf.pin(kafka, "kafka.jar", b"jar")
    (shelf.cache / f".fetch-{_a_pid_that_ended()}-x").mkdir(parents=True)
    running = shelf.cache / f".fetch-{os.getpid()}-y"
    running.mkdir()
    shelf.maven('printf jar > "$out/kafka.jar"')
    await shelf.fetch()
    assert sorted(shelf.left()) == sorted([running.name, folder_of(kafka, shelf.cache).name])


def _a_pid_that_ended() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_half_a_folder_is_not_taken(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = shelf.stock(monkeypatch)
    shelf.pin(kafka, "kafka.jar", b"jar")
    content(folder_of(kafka, shelf.cache)).mkdir(parents=True)
    assert cached(kafka, shelf.cache) is None


def test_another_pin_is_another_folder(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = shelf.stock(monkeypatch)
    shelf.pin(kafka, "kafka.jar", b"one")
    one = folder_of(kafka, shelf.cache)
    shelf.pin(kafka, "kafka.jar", b"two")
    assert folder_of(kafka, shelf.cache) != one


def test_no_difference_is_none() -> None:
    assert difference({"a": "1"}, {"a": "1"}) is None


@pytest.mark.parametrize("name", ["kafka", "cassandra", "registry"])
def test_every_committed_pin_fits_its_version_and_names_no_place(name: str) -> None:
    artifact = ARTIFACTS[name]
    pom = artifact.pom.read_text()
    assert f"<version>{artifact.version}</version>" in pom
    assert set(re.findall(r"https?://[^\"<\s]+", pom)) == {"http://maven.apache.org/POM/4.0.0"}
    pins = pinned(artifact)
    assert any(artifact.version in file for file in pins)
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in pins.values())
    assert artifact.unpack == (len(pins) == 1)
