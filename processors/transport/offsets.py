"""Which offset may be committed. Pure: owns the account of what was taken and what was acknowledged.

Records count as taken where the client hands them over, before any queue of Faust's, so what Faust skips
or drops on its way holds the offset back instead of passing it. Only an explicit acknowledgement advances
one. Gaps (aborted transactions, control records) need no arithmetic: offsets are compared, never counted.
"""

from typing import Final

Place = tuple[str, int]
"""Topic and partition."""
NONE_YET: Final = -1


class Recreated(Exception):
    """An offset came again within one assignment: the topic is another one under the same name."""


class _Account:
    """One partition for the length of one assignment."""

    def __init__(self) -> None:
        self.committed: int | None = None
        self.last_taken = NONE_YET
        self.last_acknowledged = NONE_YET
        self.open: dict[int, None] = {}
        """Taken and not acknowledged, in order."""

    def next(self) -> int | None:
        """The offset that a restart must read first; None where nothing was acknowledged yet."""
        if self.open:
            first = next(iter(self.open))
            return first if self.last_acknowledged != NONE_YET else None
        return None if self.last_acknowledged == NONE_YET else self.last_acknowledged + 1


class Offsets:
    """The accounts of all partitions held. Every assignment has a number; what is told under an older
    one is void."""

    def __init__(self) -> None:
        self.assignment = 0
        self._held: dict[Place, _Account] = {}

    def assigned(self, places: set[Place]) -> int:
        """A new assignment with empty accounts; returns its number."""
        self.assignment += 1
        self._held = {place: _Account() for place in places}
        return self.assignment

    def revoked(self) -> None:
        """Nothing is held; late acknowledgements find nobody."""
        self.assignment += 1
        self._held = {}

    def committed(self, place: Place, offset: int | None) -> None:
        """What the group has for this partition: where a restart would begin."""
        if place in self._held:
            self._held[place].committed = offset

    def committed_at(self, place: Place) -> int | None:
        return self._held[place].committed if place in self._held else None

    def taken(self, place: Place, offset: int, assignment: int) -> bool:
        """Notes a record; False where its assignment is over, and it must not be processed.

        Raises:
            Recreated: the offset is not above the last one taken.
        """
        account = self._held.get(place)
        if account is None or assignment != self.assignment:
            return False
        if offset <= account.last_taken:
            topic, partition = place
            raise Recreated(f"{topic} partition {partition} went back to offset {offset}")
        account.last_taken = offset
        account.open[offset] = None
        return True

    def acknowledged(self, place: Place, offset: int, assignment: int) -> None:
        """All that follows from a record is in the log."""
        account = self._held.get(place)
        if account is None or assignment != self.assignment or offset not in account.open:
            return
        del account.open[offset]
        account.last_acknowledged = max(account.last_acknowledged, offset)

    def to_commit(self) -> dict[Place, int]:
        """What is new to the group: the first open offset of each partition, else the one behind the
        last acknowledged."""
        found = {}
        for place, account in self._held.items():
            offset = account.next()
            if offset is not None and offset > (account.committed or 0):
                found[place] = offset
        return found

    def open_count(self, place: Place) -> int:
        """Records taken and not acknowledged."""
        return len(self._held[place].open) if place in self._held else 0
