"""What the stack fetches: each artifact's pinned version, and the hash of its every file.

Reads the committed locks and looks into the cache; it never goes out (fetch.py does).
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

POMS = Path(__file__).parent / "poms"
HASH_CHUNK_BYTES = 1 << 20


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to fetch. `unpack`: its single file is an archive whose content is what is used."""

    name: str
    title: str
    version: str
    unpack: bool = False

    @property
    def pom(self) -> Path:
        return POMS / f"{self.name}.xml"

    @property
    def lock(self) -> Path:
        return POMS / f"{self.name}.sha256"


ARTIFACTS = {
    artifact.name: artifact
    for artifact in (
        Artifact(name="kafka", title="Apache Kafka", version="4.3.1"),
        Artifact(name="cassandra", title="Apache Cassandra", version="5.0.6"),
        Artifact(name="registry", title="Apicurio Registry", version="3.3.3", unpack=True),
    )
}


def pinned(artifact: Artifact) -> dict[str, str]:
    """File name -> sha256, as committed."""
    lines = artifact.lock.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def hashes(folder: Path) -> dict[str, str]:
    """File name -> sha256, as found in the folder."""
    return {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.is_file()}


def difference(expected: dict[str, str], found: dict[str, str]) -> str | None:
    """The first file that is not as pinned, in words; None where all are."""
    for name in sorted(expected.keys() | found.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} is not pinned"
        if expected[name] != found[name]:
            return f"{name} has another hash than the pinned one"
    return None


def folder_of(artifact: Artifact, cache: Path) -> Path:
    """Where it lies in the cache. Named by its lock, so another pin is another folder."""
    lock = hashlib.sha256(artifact.lock.read_bytes()).hexdigest()[:12]
    return cache / f"{artifact.name}-{artifact.version}-{lock}"


def cached(artifact: Artifact, cache: Path) -> Path | None:
    """The fetched artifact, or None. A folder is renamed into place only when it is whole."""
    folder = folder_of(artifact, cache)
    return folder if (folder / "complete").is_file() else None


def content(folder: Path) -> Path:
    """The part of a cached folder that is used."""
    return folder / "content"


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(HASH_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
