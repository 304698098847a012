"""The bench of the driver that a test is run on."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.processors.transport.drivers import Bench, Make


@pytest.fixture
async def bench(make: Make, tmp_path: Path) -> AsyncIterator[Bench]:
    made = make(tmp_path)
    yield made
    made.consumer._thread.thread_loop.close()
