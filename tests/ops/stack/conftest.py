"""Surroundings of the stack's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from ops.stack.settings import StackSettings, read_settings
from tests.ops.stack.children import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def settings(tmp_path: Path) -> StackSettings:
    return read_settings(
        {
            "MILENA_DATA": str(tmp_path / "data"),
            "MILENA_STACK_CACHE": str(tmp_path / "cache"),
            "MILENA_PORT_BASE": "17000",
        }
    )
