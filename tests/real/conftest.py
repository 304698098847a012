"""One whole stack for all real tests: own folder, own ports, stopped at the end.

Every test makes its own users, so tests share nothing but processes. A test that hurts a part waits until
the stack serves again before it ends.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge
from tests.real.client import Client
from tests.real.edges import HASTY, PATIENT
from tests.real.users import Users

FIRST = ("test_verify", "test_readme", "test_drill")
"""Modules that judge the whole log: they run before others put records of no machine into it."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All are real; the judges first, everything else in its order."""
    for item in items:
        if "/real/" in str(item.path):
            item.add_marker(pytest.mark.real)
    real = [at for at, item in enumerate(items) if item.path.parent == Path(__file__).parent]
    moved = sorted((items[at] for at in real), key=_place)
    for at, item in zip(real, moved, strict=True):
        items[at] = item


def _place(item: pytest.Item) -> int:
    return FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST)


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
    fresh = FreshStack(data, PATIENT)
    fresh.start()
    yield fresh
    code = fresh.stop()
    assert code == 0, f"the stack ended with {code}, see {data / 'up.log'}"


@pytest.fixture(scope="session")
def second_edge(stack: FreshStack) -> Iterator[SecondEdge]:
    """B2: another edge of the same stack, with the same settings."""
    with stack.second_edge(PATIENT) as edge:
        yield edge


@pytest.fixture(scope="session")
def hasty_edge(stack: FreshStack) -> Iterator[SecondEdge]:
    """An edge whose every wait is short, so that what it does about time is seen without waiting."""
    with stack.second_edge({**PATIENT, **HASTY}) as edge:
        yield edge


@pytest.fixture(scope="session")
def users(stack: FreshStack) -> Iterator[Users]:
    """Makes users without a process for each."""
    made = asyncio.run(Users.open(stack))
    yield made
    asyncio.run(made.close())


@pytest.fixture
async def ann(stack: FreshStack, users: Users) -> AsyncIterator[Client]:
    """A paid user nobody has seen before, at the stack's own edge."""
    async with Client(stack.url, (await users.new()).key) as client:
        yield client


@pytest.fixture
def paid_key(stack: FreshStack) -> str:
    return stack.new_key("paid")


@pytest.fixture
def free_key(stack: FreshStack) -> str:
    return stack.new_key("free")
