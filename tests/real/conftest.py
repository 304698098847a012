"""One whole stack for all real tests: own folder, own ports, stopped at the end.

Every test makes its own keys, so tests share nothing but processes. A test that hurts a part waits until
the stack serves again before it ends.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.stack.fresh import FreshStack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshStack]:
    """The stack, serving. `MILENA_TEST_DATA` keeps its folder somewhere of the caller's choice;
    `MILENA_TEST_STACK` is the folder of one that runs already, and goes on."""
    running = os.environ.get("MILENA_TEST_STACK")
    if running:
        yield FreshStack.attach(Path(running))
        return
    chosen = os.environ.get("MILENA_TEST_DATA")
    data = Path(chosen) if chosen else tmp_path_factory.mktemp("stack")
    fresh = FreshStack(data)
    fresh.start()
    yield fresh
    code = fresh.stop()
    assert code == 0, f"the stack ended with {code}, see {data / 'up.log'}"


@pytest.fixture
def paid_key(stack: FreshStack) -> str:
    return stack.new_key("paid")


@pytest.fixture
def free_key(stack: FreshStack) -> str:
    return stack.new_key("free")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/real/" in str(item.path):
            item.add_marker(pytest.mark.real)
