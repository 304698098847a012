"""The lanes of one worker: a reader and a group each, paused when enough is read ahead.

Owns the readers and what is committed through them. It claims nothing.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from connectors.log import Record
from inference import metrics
from inference.intake import Intake
from inference.log import Log, Place, Reader
from inference.scheduler import Request
from schemas.generated.types import Lane
from topics.topic import Topic

COMMIT_EVERY_S: Final = 1.0


class Lanes:
    """`more` is called when there is something to claim. `topics` in the order of serving."""

    def __init__(
        self, topics: Mapping[Lane, Topic], read_ahead_max: int, more: Callable[[], None]
    ) -> None:
        self._topics = dict(topics)
        self._intake = Intake({lane: topic.name for lane, topic in topics.items()}, read_ahead_max)
        self._more = more
        self._readers: dict[Lane, Reader] = {}
        self._paused: set[Lane] = set()
        self._stopped = False
        self._commit_due_s = 0.0
        self.joined = False

    async def join(self, log: Log, pool: str, static_id: str) -> None:
        """Joins every lane's group; returns with partitions of each.

        Raises:
            TimeoutError: the broker gives none.
        """
        for lane, topic in self._topics.items():
            self._readers[lane] = log.grouped(
                topic, f"milena-{pool}-{lane.value}", static_id, self._read, self._revoked
            )
        await asyncio.gather(*(reader.ready() for reader in self._readers.values()))
        self.joined = True

    @property
    def failed(self) -> str | None:
        """Why a lane can never be read again."""
        reasons = (reader.failed for reader in self._readers.values())
        return next((reason for reason in reasons if reason is not None), None)

    def next(self) -> Request | None:
        """The request to claim next."""
        return self._intake.ahead.next()

    def answered(self, request: Request) -> None:
        """Granted or refused, by whoever: it need not be read again."""
        self._intake.answered(request)

    def stop(self) -> None:
        """Reads no more; offsets are still committed."""
        self._stopped = True
        for reader in self._readers.values():
            reader.pause(list(reader.assignment))

    def tick(self, now_s: float) -> None:
        """Commits once a second, and lets paused lanes go on."""
        held = frozenset[Place]().union(*(r.assignment for r in self._readers.values()))
        # Partitions may be lost without a word (a session that ran out).
        self._intake.forget(lambda place: place not in held)
        for lane in self._topics:
            metrics.WAITING.labels(lane.value).set(self._intake.ahead.waiting(lane))
            if lane in self._paused and self._intake.ahead.low(lane) and not self._stopped:
                self._paused.discard(lane)
                self._readers[lane].resume(list(self._readers[lane].assignment))
        if now_s >= self._commit_due_s:
            self._commit_due_s = now_s + COMMIT_EVERY_S
            self._commit()

    async def leave(self) -> None:
        """Commits what was answered and leaves the groups."""
        self._commit()
        await asyncio.gather(*(reader.close() for reader in self._readers.values()))

    def _read(self, records: list[Record]) -> None:
        self._intake.read(records)
        for lane, reader in self._readers.items():
            if self._intake.ahead.full(lane):
                # Said with every batch: partitions that came anew are not paused yet.
                self._paused.add(lane)
                reader.pause(list(reader.assignment))
        self._more()

    def _revoked(self, places: list[Place]) -> None:
        self._commit()
        gone = frozenset(places)
        self._intake.forget(gone.__contains__)

    def _commit(self) -> None:
        for lane, reader in self._readers.items():
            offsets = self._intake.commits(self._topics[lane].name)
            if offsets:
                reader.commit(offsets)
