"""Files of the stack that must never be seen half written, or by others."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, text: str, *, mode: int = 0o600, sync: bool = True) -> None:
    """Writes beside the file and renames over it; with `sync` it also survives a power cut."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    temporary.rename(path)


def secret_file(data: Path) -> Path:
    """The stack's own secret, 32 random bytes in hex, made once and never shown."""
    path = data / "secret"
    if not path.is_file():
        write_atomically(path, secrets.token_hex(32))
    return path


def private_folder(path: Path) -> Path:
    """A folder only its owner can open: logs and stores live there."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
