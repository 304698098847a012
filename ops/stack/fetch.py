"""Fetches the pinned artifacts through Maven into the cache, side by side, once.

Owns the temporary folders it works in: what is fetched is checked against its lock and renamed into
place whole, so neither a kill nor a second fetch beside it leaves half an artifact.
`python -m ops.stack.fetch lock` writes the locks anew after a version in a POM was changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ops.stack.artifacts import (
    ARTIFACTS,
    Artifact,
    cached,
    content,
    difference,
    folder_of,
    hashes,
    pinned,
)
from ops.stack.settings import StackError

GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.9.0:copy-dependencies"
FETCH_S_MAX = 900.0
UNPACK_S_MAX = 120.0
PROGRESS_S = 2.0
WORDS_MAX = 200

Progress = Callable[[str, str], None]
"""Called with an artifact's name and a few words."""


async def fetch_all(names: list[str], cache: Path, progress: Progress) -> None:
    """Fetches what is not in the cache yet, in parallel.

    Raises:
        StackError: when Maven fails or a file is not as pinned. The rest is stopped.
    """
    missing = [ARTIFACTS[name] for name in names if cached(ARTIFACTS[name], cache) is None]
    if not missing:
        return
    _open_cache(cache)
    try:
        async with asyncio.TaskGroup() as group:
            for artifact in missing:
                group.create_task(_fetch(artifact, cache, progress))
    except* StackError as failed:
        raise failed.exceptions[0] from None


async def _fetch(artifact: Artifact, cache: Path, progress: Progress) -> None:
    started = time.monotonic()
    # Its own local repository each: Maven's is not made for several writers.
    work = Path(tempfile.mkdtemp(prefix=f".fetch-{os.getpid()}-", dir=cache))
    try:
        libs = await download(artifact, work, progress)
        progress(artifact.name, "checking")
        await asyncio.to_thread(_place, artifact, libs, folder_of(artifact, cache))
    finally:
        await asyncio.to_thread(shutil.rmtree, work, ignore_errors=True)
    progress(artifact.name, f"fetched in {time.monotonic() - started:.0f} s")


async def download(artifact: Artifact, work: Path, progress: Progress) -> Path:
    """Lets Maven copy the artifact's files into a folder of `work`.

    Raises:
        StackError: when it fails or takes longer than its deadline.
    """
    libs = work / "libs"
    maven = await asyncio.create_subprocess_exec(
        *("mvn", "-q", "-B", "-f", str(artifact.pom), GOAL),
        *("-DincludeScope=runtime", f"-DoutputDirectory={libs}"),
        f"-Dmaven.repo.local={work / 'repository'}",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        process_group=0,
        cwd=work,
    )
    assert maven.stdout is not None
    told = asyncio.ensure_future(maven.stdout.read())
    try:
        async with asyncio.timeout(FETCH_S_MAX):
            while not (await asyncio.wait([told], timeout=PROGRESS_S))[0]:
                progress(artifact.name, f"fetching, {_size(work) / 1e6:.0f} MB")
            await maven.wait()
    except TimeoutError:
        raise StackError(
            f"{artifact.title} was not fetched within {FETCH_S_MAX:.0f} s: check the network "
            "and run it again"
        ) from None
    finally:
        if maven.returncode is None:
            maven.kill()
            await maven.wait()
        told.cancel()
    if maven.returncode != 0:
        reason = _reason(told.result().decode(errors="replace"))
        raise StackError(f"Maven could not fetch {artifact.title} {artifact.version}: {reason}")
    return libs


def _place(artifact: Artifact, libs: Path, target: Path) -> None:
    """Checks what was fetched against its pins and puts it where it is used, whole."""
    wrong = difference(pinned(artifact), hashes(libs))
    if wrong:
        raise StackError(
            f"{artifact.title} {artifact.version} was refused: {wrong}. Try again; if it stays, "
            "compare with the pins in ops/stack/poms"
        )
    whole = libs.parent / "whole"
    whole.mkdir()
    if artifact.unpack:
        _unpack(next(libs.iterdir()), content(whole))
    else:
        libs.rename(content(whole))
    # The marker must not reach the disk before what it vouches for.
    os.sync()
    with (whole / "complete").open("w") as marker:
        os.fsync(marker.fileno())
    # Another fetch may have been quicker: its folder holds the same pinned files.
    with contextlib.suppress(OSError):
        whole.rename(target)
    if not (target / "complete").is_file():
        raise StackError(f"{target} cannot be written: remove it and run it again")


def _unpack(archive: Path, target: Path) -> None:
    target.mkdir()
    tar = ("tar", "-xzf", str(archive), "-C", str(target), "--no-same-owner")
    if subprocess.run(tar, stdin=subprocess.DEVNULL, timeout=UNPACK_S_MAX).returncode != 0:
        raise StackError(f"{archive.name} could not be unpacked: is the disk full?")


def _open_cache(cache: Path) -> None:
    """Makes the folder and removes from it what fetches left whose process is gone."""
    cache.mkdir(parents=True, exist_ok=True)
    for folder in cache.glob(".fetch-*"):
        pid = folder.name.split("-")[1]
        if not Path(f"/proc/{pid}").exists():
            shutil.rmtree(folder, ignore_errors=True)


def _size(folder: Path) -> int:
    """Bytes of all files below; files may come and go meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += (Path(root) / name).stat().st_size
    return total


def _reason(told: str) -> str:
    errors = [line for line in told.splitlines() if line.startswith("[ERROR]")]
    return (errors[0].removeprefix("[ERROR]").strip() if errors else "it said nothing")[:WORDS_MAX]


async def lock_all(say: Callable[[str], None]) -> None:
    """Writes every lock from what Maven brings now."""
    with tempfile.TemporaryDirectory() as folder:
        for artifact in ARTIFACTS.values():
            work = Path(folder) / artifact.name
            work.mkdir()
            found = hashes(await download(artifact, work, lambda _name, _words: None))
            artifact.lock.write_text("".join(f"{sha}  {name}\n" for name, sha in found.items()))
            say(f"{artifact.lock.name}: {len(found)} files")


if __name__ == "__main__":
    if sys.argv[1:] != ["lock"]:
        sys.exit("usage: python -m ops.stack.fetch lock")
    asyncio.run(lock_all(print))
