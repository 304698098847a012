"""Kafka in memory: topics, partitions, appends, fetches. Owns the log of the simulated world.

Requests travel with a seeded latency and arrive in the broker's own process, so a client that dies after
it sent is served all the same. A stalled broker keeps what arrives until it goes on. Who may commit is
`groups.py`; what goes wrong with a request is drawn by `Faults`.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from tests.simulation.loop import PROCESS, Process, SimulationLoop
from tests.simulation.trace import Trace
from topics.registry import TOPICS
from topics.topic import Topic

T0_MS: Final = 1_796_169_600_000
"""2026-12-02 00:00:00 UTC, the start of a three-hour window."""
COMPACTION_LAG_MS: Final = 8_000
"""A day in truth: longer than an owner needs to see a stranger's record and to answer it."""
Place = tuple[str, int]
Headers = tuple[tuple[str, bytes], ...]
Reply = Callable[[Any], None]


class Draft(NamedTuple):
    """A record before it has a place."""

    key: bytes
    value: bytes | None
    headers: Headers = ()


class Rec(NamedTuple):
    """A record in its place; `by` is the process that sent it."""

    offset: int
    append_ms: int
    key: bytes
    value: bytes | None
    headers: Headers
    by: Process | None


class Failed(Exception):
    """The outcome of a request is not known, or known to be none."""


class Fate(NamedTuple):
    """What becomes of one produce request."""

    append: bool = True
    answer_after_s: float = 0.0
    error: bool = False
    late_s: float = 0.0
    """Stands in a buffer on its way for so long before the broker sees it."""


class Faults(Protocol):
    """Draws what goes wrong. `latency_s` is one way between a process and the broker."""

    def latency_s(self, place: Place | None) -> float: ...

    def fate(self, process: Process, place: Place) -> Fate: ...

    def appended(self, process: Process | None, place: Place, rec: Rec) -> None: ...


class Part:
    """One partition: records by offset; None is compacted away or no record of anybody."""

    __slots__ = ("begin", "records", "waiting")

    def __init__(self) -> None:
        self.records: list[Rec | None] = []
        self.waiting: list[Callable[[], None]] = []

    @property
    def end(self) -> int:
        return len(self.records)


class Broker:
    """All topics with their local partition counts."""

    def __init__(self, loop: SimulationLoop, rng: Random, trace: Trace, faults: Faults) -> None:
        self.loop = loop
        self.process = Process("broker")
        loop.processes.append(self.process)
        self._context = loop.context_of(self.process)
        self._rng = rng
        self._trace = trace
        self._faults = faults
        self._held: list[Callable[[], None]] = []
        self._stalled = False
        self._names: dict[Process, int] = {}
        self.ids: dict[str, str] = {}
        self.parts: dict[Place, Part] = {}
        self.compacted: set[str] = set()
        self.on_append: list[Callable[[Place, Rec], None]] = []
        for topic in TOPICS:
            self.create(topic)

    def create(self, topic: Topic) -> None:
        """Makes the topic anew, empty and under a new id."""
        self.ids[topic.name] = f"{self._rng.getrandbits(128):032x}"
        for partition in range(topic.ring.partitions(local=True)):
            self.parts[(topic.name, partition)] = Part()
        if topic.compacted:
            self.compacted.add(topic.name)

    def partitions(self, topic: str) -> int:
        return sum(1 for name, _ in self.parts if name == topic)

    def now_ms(self) -> int:
        return T0_MS + int(self.loop.time() * 1_000)

    # --- requests

    def request(self, place: Place | None, serve: Callable[[Reply], None], reply: Reply) -> None:
        """Sends a request; `serve` runs at the broker and answers through what it is given."""
        context = self.loop.context_of(PROCESS.get(self.loop.world))
        process = PROCESS.get(self.loop.world)
        if not process.alive:
            return

        def answer(result: Any, after_s: float = 0.0) -> None:
            delay_s = after_s + self._faults.latency_s(place)
            self.loop.call_later(delay_s, reply, result, context=context)

        def arrive() -> None:
            if self._stalled:
                self._held.append(arrive)
            else:
                serve(answer)

        self.loop.call_later(self._faults.latency_s(place), arrive, context=self._context)

    def produce(self, place: Place, drafts: list[Draft], reply: Reply) -> None:
        """`reply` gets the appended records, or `Failed`."""
        process = PROCESS.get(self.loop.world)

        def serve(answer: Any, met: Fate | None = None) -> None:
            fate = met or self._faults.fate(process, place)
            if fate.late_s:
                on_time = fate._replace(late_s=0.0)
                self.loop.call_later(fate.late_s, serve, answer, on_time, context=self._context)
                return
            recs = [self.append(place, draft, process) for draft in drafts] if fate.append else []
            result = Failed(place[0]) if fate.error else recs
            answer(result, fate.answer_after_s)

        self.request(place, serve, reply)

    def fetch(self, place: Place, offset: int, most: int, reply: Reply) -> None:
        """`reply` gets (records, next offset) once there is something at or after `offset`."""

        def serve(answer: Any) -> None:
            part = self.parts[place]
            if part.end <= offset:
                part.waiting.append(lambda: serve(answer))
                return
            upto = min(part.end, offset + most)
            answer(([rec for rec in part.records[offset:upto] if rec is not None], upto))

        self.request(place, serve, reply)

    def end_offsets(self, places: list[Place], reply: Reply) -> None:
        def serve(answer: Any) -> None:
            answer({place: self.parts[place].end for place in places})

        self.request(None, serve, reply)

    # --- the log itself

    def append(self, place: Place, draft: Draft, by: Process | None = None) -> Rec:
        part = self.parts[place]
        rec = Rec(part.end, self.now_ms(), draft.key, draft.value, draft.headers, by)
        part.records.append(rec)
        for look in self.on_append:
            look(place, rec)
        self._faults.appended(by, place, rec)
        self._wake(part)
        return rec

    def gap(self, place: Place) -> None:
        """An offset that holds no record: the marker of a transaction that was aborted."""
        part = self.parts[place]
        part.records.append(None)
        self._wake(part)

    def compact(self, topic: str) -> int:
        """Keeps the last record of every key among those old enough; how many records went."""
        gone, before_ms = 0, self.now_ms() - COMPACTION_LAG_MS
        for (name, _), part in self.parts.items():
            if name != topic:
                continue
            old = [rec for rec in part.records if rec is not None and rec.append_ms < before_ms]
            last = {rec.key: rec.offset for rec in old}
            for rec in old:
                if last[rec.key] != rec.offset:
                    part.records[rec.offset] = None
                    gone += 1
        return gone

    def stall(self) -> None:
        self._stalled = True

    def go_on(self) -> None:
        self._stalled = False
        held, self._held = self._held, []
        for arrive in held:
            self.loop.call_soon(arrive, context=self._context)

    def records(self, topic: str) -> list[Rec]:
        """Everything of a topic that is still there, by partition."""
        return [
            rec
            for (name, _), part in self.parts.items()
            if name == topic
            for rec in part.records
            if rec is not None
        ]

    def counts(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for (name, _), part in self.parts.items():
            found[name] = found.get(name, 0) + part.end
        return found

    def _wake(self, part: Part) -> None:
        if part.waiting:
            waiting, part.waiting = part.waiting, []
            for serve in waiting:
                self.loop.call_soon(serve, context=self._context)
