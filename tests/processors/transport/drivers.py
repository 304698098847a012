"""The stock driver and ours behind one face, so that each way of losing records is run on both.

A scenario says what happens; a bench of either driver answers with the offset that it would commit. No
broker is asked: the parts are the real ones, their sockets are not.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import faust
import pytest
from faust.types import TP
from faust.types.tuples import ConsumerMessage

from processors.transport.app import App
from processors.transport.consumer import Taken
from topics.registry import CHANGELOGS, METERING_INBOX

INBOX: Final = TP(METERING_INBOX.name, 0)
CHANGELOG: Final = TP(CHANGELOGS["metering"].name, 0)
GENERATION: Final = 5


class Ended(Exception):
    """The process would be gone."""


async def nothing(*_: Any) -> None:
    """Nobody listens."""


class Bench(Protocol):
    """One driver's parts. `ended` holds the exit codes with which the process would have ended."""

    app: Any
    consumer: Any
    ended: list[int]

    def take(self, offset: int) -> ConsumerMessage:
        """A record as the client hands it over."""

    def finish(self, message: ConsumerMessage) -> None:
        """All that follows from the record is in the log."""

    def committable(self) -> int | None:
        """What would be committed now."""


def message(offset: int, kind: type[ConsumerMessage] = ConsumerMessage) -> ConsumerMessage:
    made = kind(INBOX.topic, 0, offset, 1.0, 1, None, b"k", b"v", None, tp=INBOX)
    made.generation_id = GENERATION
    return made


class Stock:
    """faust-streaming as it comes."""

    def __init__(self, folder: Path) -> None:
        self.ended: list[int] = []
        self.app = faust.App(
            "stock", broker="kafka://127.0.0.1:1", store="memory://", datadir=str(folder)
        )
        self.consumer = make_consumer(self.app)

    def take(self, offset: int) -> ConsumerMessage:
        return message(offset)

    def finish(self, message: ConsumerMessage) -> None:
        message.incref()
        message.ack(self.consumer)

    def committable(self) -> int | None:
        offset: int | None = self.consumer._new_offset(INBOX)
        return offset


class Ours:
    """The driver `milena://`, holding one partition under assignment 1."""

    def __init__(self, folder: Path) -> None:
        self.ended: list[int] = []
        self.app = App(
            "metering",
            METERING_INBOX,
            CHANGELOGS["metering"],
            "127.0.0.1:1",
            "test-0",
            folder,
            self._end,
        )
        self.consumer = make_consumer(self.app)
        self.offsets = self.app.tenure.offsets
        self.offsets.assigned({INBOX})

    def _end(self, reason: str, code: int) -> None:
        self.ended.append(code)

    def take(self, offset: int) -> ConsumerMessage:
        taken = message(offset, Taken)
        taken.assignment = self.offsets.assignment
        assert self.offsets.taken(INBOX, offset, taken.assignment)
        return taken

    def finish(self, message: ConsumerMessage) -> None:
        self.consumer.acknowledged(message)

    def committable(self) -> int | None:
        offset: int | None = self.consumer._new_offset(INBOX)
        return offset


def make_consumer(app: Any) -> Any:
    app.finalize()
    app.topics._acking_topics.add(INBOX.topic)
    app.consumer_generation_id = GENERATION
    app.flow_control.resume()
    consumer = app.transport.create_consumer(
        callback=nothing, on_partitions_revoked=nothing, on_partitions_assigned=nothing
    )
    consumer.assignment = lambda: {INBOX}
    app.consumer = consumer
    return consumer


Make = Callable[[Path], Bench]


def both(path: str) -> pytest.MarkDecorator:
    """The scenario on stock, which must fail as `path` says, and on ours, which must pass. Once stock
    passes, the strict expectation fails and tells that a new version mended it."""
    fails = pytest.mark.xfail(strict=True, raises=AssertionError, reason=path)
    return pytest.mark.parametrize(
        "make", [pytest.param(Stock, marks=fails, id="stock"), pytest.param(Ours, id="ours")]
    )


def record_commits(bench: Bench, journal: list[str]) -> None:
    """Notes each OffsetCommit instead of sending it."""

    async def commit(offsets: Mapping[TP, int]) -> bool:
        journal.append("commit")
        return True

    bench.consumer._commit = commit


async def turns(count: int = 20) -> None:
    """Lets the loop run on."""
    for _ in range(count):
        await asyncio.sleep(0)
