"""What clients were told and saw, and what must be true of it whatever happened.

Owns one record per reading: a client's text of one generation over all its connections. Each step is
judged as it is seen; `unread`, `compare` and `agree` judge the end.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from connectors.redis.layout import TERMINALS, EntryId, parse_id
from connectors.sse import Event
from connectors.store import Result
from tests.simulation.loop import Process
from tests.simulation.oracle import Broken

PREFIX: Final = "generation."
HOLE_S_MAX: Final = 6.0
"""A lost stream's next append, a call that is not answered, and its repeat."""
STATUS: Final = {
    "completed": "completed",
    "cancelled": "cancelled",
    "stopped": "stopped",
    "error": "failed",
}


class Reading:
    """One client's text of one generation."""

    def __init__(self, client: Process, user: str, generation_id: str) -> None:
        self._client = client
        self.user = user
        self.generation_id = generation_id
        self.text = ""
        self.last: EntryId | None = None
        """Id of the last event that had one: where a reconnect begins."""
        self.terminal: tuple[str, dict[str, Any]] | None = None
        self.gave_up = False
        self.accepted = True
        """The client was given its stream; otherwise it only heard that there is one."""
        self._whole = True
        """True where the next event must follow the last one."""
        self._ahead = False
        self._hole_since_s: float | None = None
        self._texts = 0

    @property
    def last_event_id(self) -> str:
        """As an `EventSource` remembers it."""
        return "" if self.last is None else f"{self.last[0]}-{self.last[1]}"

    @property
    def waits(self) -> bool:
        """Somebody still wants its end."""
        return self.terminal is None and not self.gave_up and self._client.alive

    def take(self, event: Event, at_s: float) -> None:
        """One event as the client got it.

        Raises:
            Broken: it breaks the order of its stream.
        """
        if not event.event.startswith(PREFIX):
            raise Broken(f"I4: {self}: a foreign event {event.event}")
        name, body = event.event.removeprefix(PREFIX), msgspec.json.decode(event.data)
        if body.get("generation_id") != self.generation_id:
            raise Broken(f"I8: {self}: an event of {body.get('generation_id')}")
        if self.terminal is not None:
            raise Broken(f"I2: {self}: {name} behind the terminal {self.terminal[0]}")
        place = parse_id(event.id) if event.id else None
        own = place == self.last
        if place is None:
            self.last = None  # forgotten together with its text
        elif place != self.last:
            self._follow(name, place)
        self._render(name, body, at_s)
        if name == "snapshot":
            self._ahead = own  # of the place where a reconnect begins
            if own and not body["text"]:
                self.last, self._ahead = None, False  # begun anew: its id is for nothing now
        if name in TERMINALS:
            if self._hole_since_s is not None:
                raise Broken(f"I4: {self}: ended with a hole in its text")
            self.terminal = (name, body)

    def _follow(self, name: str, place: EntryId) -> None:
        last = self.last
        if last is not None and place < last and self._whole:
            raise Broken(f"I4: {self}: {place} behind {last}")
        # Gap-free within an epoch, only growing across.
        gap_free = last is None or (
            place[1] == last[1] + 1 if place[0] == last[0] else place[1] > last[1]
        )
        if self._whole and name != "snapshot" and not gap_free:
            raise Broken(f"I4: {self}: {name} {place} does not follow {last}")
        self._whole = True
        self.last = place

    def _render(self, name: str, body: dict[str, Any], at_s: float) -> None:
        match name:
            case "text.delta":
                if self._texts == 0 and body["offset"] > 0:
                    # Of a stream that lost its beginning; a snapshot must follow soon.
                    self._hole_since_s = at_s
                if self._ahead:  # a stored text was shown, and its end did not come
                    self.text, self._ahead = self.text[: body["offset"]], False
                hole_s = 0.0 if self._hole_since_s is None else at_s - self._hole_since_s
                if hole_s > HOLE_S_MAX:
                    raise Broken(f"I4: {self}: a hole in its text for {hole_s:.1f} s")
                if self._hole_since_s is None and body["offset"] != len(self.text):
                    raise Broken(f"I4: {self}: text at {body['offset']}, shown {len(self.text)}")
                self.text += body["delta"]
                self._texts += 1
            case "snapshot":
                self.text = body["text"]
                self._texts = self._texts + 1 if self.text else 0
                self._hole_since_s = None
                self._whole = False  # it replaces all before it: anything may follow
            case "reset":
                self.text = self.text[: body["offset"]]

    def __str__(self) -> str:
        return f"{self._client.name} reads {self.generation_id}"


class Whole(msgspec.Struct, frozen=True):
    """An answer that came in one piece."""

    generation_id: str
    status: str
    text: str


class History:
    """Of all clients, over all their lives. `known`: the store has the
    owner of a generation."""

    def __init__(self, mark: Callable[[str], None], known: Callable[[str], bool]) -> None:
        self._mark = mark
        self.known = known
        self.readings: list[Reading] = []
        self.wholes: list[Whole] = []
        self._owner: dict[str, str] = {}
        self._said: dict[str, str] = {}
        """Generation -> the only text that its script can make."""

    def accepted(self, generation_id: str, user: str, said: str) -> None:
        """A client holds the id of an accepted request."""
        if self._owner.setdefault(generation_id, user) != user:
            raise Broken(f"I8: {generation_id} given to {user}, is of {self._owner[generation_id]}")
        self._said.setdefault(generation_id, said)

    def not_found(self, reading: Reading, known: bool) -> None:
        """A client was told that nobody knows what it was given; `known` when it asked.

        Raises:
            Broken: somebody does.
        """
        if known:
            raise Broken(f"I1: {reading}: not found, and it is there")
        self._mark("nobody knew an accepted request for a while")

    def reading(self, client: Process, user: str, generation_id: str) -> Reading:
        reading = Reading(client, user, generation_id)
        self.readings.append(reading)
        return reading

    def whole(self, generation_id: str, status: str, text: str) -> None:
        self.wholes.append(Whole(generation_id, status, text))

    def unread(self) -> str | None:
        """The first reading that still waits for its end (I7)."""
        return next((f"{one} has no end" for one in self.readings if one.waits), None)

    def compare(self, row_of: Callable[[str], Result | None]) -> None:
        """Every ended reading shows the stored text and end; all of them say the same.

        Raises:
            Broken: one does not.
        """
        for reading in self.readings:
            if reading.terminal is not None:
                status = STATUS[reading.terminal[0]]
                self._agrees(str(reading), reading.generation_id, status, reading.text, row_of)
        for whole in self.wholes:
            self._agrees("a document", whole.generation_id, whole.status, whole.text, row_of)

    def _agrees(
        self,
        who: str,
        generation_id: str,
        status: str,
        text: str,
        row_of: Callable[[str], Result | None],
    ) -> None:
        row = row_of(generation_id)
        if row is None or not row.ended:
            raise Broken(f"I1: {who}: ended as {status}, and no row says so")
        if (row.status.value, row.text) != (status, text):
            raise Broken(
                f"I4: {who}: ended as {status} with {len(text)} characters, "
                f"stored {row.status.value} with {len(row.text)}"
            )
        said = self._said.get(generation_id)
        if said is not None and not said.startswith(text):
            raise Broken(f"I4: {who}: a text that its script never said")
        if said is not None and status == "completed" and text != said:
            raise Broken(f"I4: {who}: completed with {len(text)} of {len(said)} characters")
        self._mark(f"read to the end: {status}")
