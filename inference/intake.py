"""From records of the lanes to requests, and from answered requests to offsets.

Owns what was read and not yet answered. Sans I/O: readers are others' and nothing is committed
here; it says what may be.
"""

from collections.abc import Callable, Mapping, Sequence

import structlog

from connectors.log import Record
from inference import metrics
from inference.offsets import LowWater
from inference.scheduler import Place, ReadAhead, Request
from schemas.generated.types import Lane, StepRequest
from topics import wire
from topics.errors import InvalidRecord

_log = structlog.get_logger()


class Intake:
    """The lanes of one worker in the order they are served."""

    def __init__(self, lanes: Mapping[Lane, str], read_ahead_max: int) -> None:
        self._lane_of = {topic: lane for lane, topic in lanes.items()}
        self._marks: dict[Place, LowWater] = {}
        self.ahead = ReadAhead(tuple(lanes), read_ahead_max)

    def read(self, records: Sequence[Record]) -> None:
        """Takes records in the order of their partitions; one that cannot be read is answered."""
        for record in records:
            place = (record.topic, record.partition)
            mark = self._marks.setdefault(place, LowWater())
            if not mark.read(record.offset):
                continue
            try:
                step = wire.decode(StepRequest, record.value)
            except InvalidRecord as error:
                metrics.UNREADABLE.labels(record.topic).inc()
                _log.error(
                    "request unreadable",
                    reason=error.reason,
                    topic=record.topic,
                    partition=record.partition,
                    offset=record.offset,
                )
                mark.answered(record.offset)
                continue
            self.ahead.add(self._lane_of[record.topic], Request(step, place, record.offset))

    def answered(self, request: Request) -> None:
        """Granted or refused: its offset need not be read again."""
        mark = self._marks.get(request.place)
        if mark is not None:
            mark.answered(request.offset)

    def commits(self, topic: str) -> dict[Place, int]:
        """Next offsets of the topic's partitions that moved since the last call."""
        return {
            place: offset
            for place, mark in self._marks.items()
            if place[0] == topic and (offset := mark.commit()) is not None
        }

    def forget(self, gone: Callable[[Place], bool]) -> None:
        """Partitions that are another worker's now: what was read of them is read again there."""
        places = [place for place in self._marks if gone(place)]
        if not places:
            return
        for place in places:
            del self._marks[place]
        dropped = self.ahead.drop(gone)
        if dropped:
            _log.info("requests given up with their partitions", requests=dropped)
