"""Every command is tried as from a fresh shell: none of the caller's settings, a folder of its own."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def fresh_shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Returns the folder that MILENA_DATA names."""
    for name in list(os.environ):
        if name.startswith("MILENA_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MILENA_DATA", str(tmp_path))
    return tmp_path
