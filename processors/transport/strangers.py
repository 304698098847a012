"""Finds records of others in a changelog partition that only its owner writes. Pure.

Our own delivery reports name every offset we wrote, so an offset between two of them, or one behind our
last where nothing of ours is on its way, was written by somebody else: a predecessor that was stopped and
went on. What it wrote must be read and answered, or compaction would keep it in place of ours.
"""

from typing import NamedTuple


class Span(NamedTuple):
    """Offsets `start` to `end` (not included) of one partition that we did not write."""

    partition: int
    start: int
    end: int


class Cut(Exception):
    """A partition ends before what we wrote to it: it was re-created or truncated."""


class _Own:
    def __init__(self, end: int) -> None:
        self.next = end
        """The offset that our next report must name."""
        self.sent = 0
        self.open = 0


class Strangers:
    """What is known of each changelog partition held."""

    def __init__(self) -> None:
        self._own: dict[int, _Own] = {}
        self._found: list[Span] = []

    def begin(self, partition: int, end: int) -> None:
        """This partition is ours and was read up to its end."""
        self._own[partition] = _Own(end)

    def keep(self, partitions: set[int]) -> None:
        """All but these were given up."""
        self._own = {one: own for one, own in self._own.items() if one in partitions}
        self._found = [span for span in self._found if span.partition in partitions]

    def sent(self, partition: int) -> None:
        """A record of ours is on its way."""
        own = self._own.get(partition)
        if own is not None:
            own.sent += 1
            own.open += 1

    def reported(self, partition: int, offset: int) -> None:
        """It was appended; reports of one partition come in the order of its log. An offset below 0
        (appended by an earlier try) is unknown and will be read like a stranger's."""
        own = self._own.get(partition)
        if own is None:
            return
        own.open -= 1
        if offset > own.next:
            self._found.append(Span(partition, own.next, offset))
        own.next = max(own.next, offset + 1)

    def quiet(self) -> dict[int, int]:
        """Partition -> sends so far, where nothing is on its way: their ends can be judged."""
        return {partition: own.sent for partition, own in self._own.items() if not own.open}

    def ended(self, partition: int, end: int, sent: int) -> None:
        """The partition's end as asked for after `quiet` said `sent`. Void if we wrote meanwhile: the
        next report then shows what lies before it.

        Raises:
            Cut: the end lies below what we wrote.
        """
        own = self._own.get(partition)
        if own is None or own.open or own.sent != sent:
            return
        if end < own.next:
            raise Cut(f"changelog partition {partition} ends at {end}, after ours at {own.next}")
        if end > own.next:
            self._found.append(Span(partition, own.next, end))
            own.next = end

    def found(self) -> list[Span]:
        """Spans to be read, handed over once."""
        found, self._found = self._found, []
        return found
