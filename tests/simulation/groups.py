"""Consumer groups: who holds which partition, and how far it got. Owns generations and offsets.

As Kafka's coordinator does it: a member that is silent for a session timeout leaves; every change of
membership is a new generation that all members join anew; a static member that starts again takes its
predecessor's place at once and fences it.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from tests.simulation.broker import Broker, Place, Reply
from tests.simulation.trace import Trace

SESSION_S: Final = 10.0


class Beat(Enum):
    """Answer to a heartbeat."""

    OK = "ok"
    REJOIN = "rejoin"
    FENCED = "fenced"
    UNKNOWN = "unknown"


class Joined:
    """A member's place in a generation."""

    def __init__(self, generation: int, places: tuple[Place, ...]) -> None:
        self.generation = generation
        self.places = places


class _Member:
    def __init__(self, life: int) -> None:
        self.life = life
        self.seen_s = 0.0
        self.joining: Reply | None = None
        self.places: tuple[Place, ...] = ()


class Group:
    """One group over some topics. A `life` is one connection of a static member."""

    def __init__(self, broker: Broker, trace: Trace, name: str, topics: Sequence[str]) -> None:
        self._broker = broker
        self._trace = trace
        self._name = name
        self._topics = tuple(topics)
        self._members: dict[str, _Member] = {}
        self._preparing = False
        self.generation = 0
        self.committed: dict[Place, int] = {}

    @property
    def settled(self) -> bool:
        return not self._preparing and bool(self._members)

    def join(self, name: str, life: int, reply: Reply) -> None:
        """Answers with `Joined` once the generation is complete, or with None where fenced."""
        self._broker.request(None, lambda answer: self._join(name, life, answer), reply)

    def beat(self, name: str, life: int, generation: int, reply: Reply) -> None:
        self._broker.request(None, lambda answer: answer(self._beat(name, life, generation)), reply)

    def commit(
        self, name: str, life: int, generation: int, offsets: Mapping[Place, int], reply: Reply
    ) -> None:
        """Answers True where the offsets were taken."""

        def serve(answer: Any) -> None:
            member = self._members.get(name)
            good = member is not None and member.life == life and generation == self.generation
            if good:
                self.committed.update(offsets)
            answer(good)

        self._broker.request(None, serve, reply)

    def fetch_committed(self, places: Sequence[Place], reply: Reply) -> None:
        found = self.committed
        self._broker.request(
            None, lambda answer: answer({place: found.get(place, 0) for place in places}), reply
        )

    def leave(self, name: str, life: int) -> None:
        def serve(_: Any) -> None:
            member = self._members.get(name)
            if member is not None and member.life == life:
                self._remove(name)

        self._broker.request(None, serve, lambda _: None)

    def shake(self) -> None:
        """A rebalance for no reason."""
        if self._members:
            self._prepare()

    def _join(self, name: str, life: int, answer: Reply) -> None:
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = _Member(life)
            self._watch(name, member)
            self._prepare()
        elif member.life < life:
            if member.joining is not None:
                member.joining(None)
            member.joining = None
            member.life = life
            if not self._preparing:
                self._trace.mark("static member came back")
                member.seen_s = self._broker.loop.time()
                answer(Joined(self.generation, member.places))
                return
        elif member.life > life:
            answer(None)
            return
        else:
            self._prepare()
        member.seen_s = self._broker.loop.time()
        member.joining = answer
        self._complete()

    def _beat(self, name: str, life: int, generation: int) -> Beat:
        member = self._members.get(name)
        if member is None:
            return Beat.UNKNOWN
        if member.life != life:
            return Beat.FENCED
        member.seen_s = self._broker.loop.time()
        if self._preparing or generation != self.generation:
            return Beat.REJOIN
        return Beat.OK

    def _watch(self, name: str, member: _Member) -> None:
        def look() -> None:
            if self._members.get(name) is not member:
                return
            left_s = member.seen_s + SESSION_S - self._broker.loop.time()
            if left_s > 0 or member.joining is not None:
                self._broker.loop.call_later(max(left_s, 1.0), look)
                return
            self._trace.say("group", f"{self._name}: {name} is gone")
            self._trace.mark("session ended")
            self._remove(name)

        member.seen_s = self._broker.loop.time()
        self._broker.loop.call_later(SESSION_S, look)

    def _remove(self, name: str) -> None:
        del self._members[name]
        self._prepare()
        self._complete()

    def _prepare(self) -> None:
        self._preparing = True

    def _complete(self) -> None:
        waiting = {name: member.joining for name, member in self._members.items()}
        if not self._preparing or not waiting or None in waiting.values():
            return
        self._preparing = False
        self.generation += 1
        names = sorted(self._members)
        self._assign(names)
        self._trace.say("group", f"{self._name}: generation {self.generation} of {names}")
        if self.generation > 1:
            self._trace.mark("rebalance")
        for name, answer in waiting.items():
            member = self._members[name]
            member.joining = None
            member.seen_s = self._broker.loop.time()
            assert answer is not None
            answer(Joined(self.generation, member.places))

    def _assign(self, names: list[str]) -> None:
        """Evenly, and to whom held it before where that is even."""
        before = {p: name for name in names for p in self._members[name].places}
        held: dict[str, list[Place]] = {name: [] for name in names}
        for topic in self._topics:
            count = self._broker.partitions(topic)
            quota = -(-count // len(names))
            shares = dict.fromkeys(names, 0)
            homeless = []
            for place in ((topic, partition) for partition in range(count)):
                owner = before.get(place)
                if owner is not None and shares[owner] < quota:
                    shares[owner] += 1
                    held[owner].append(place)
                else:
                    homeless.append(place)
            for place in homeless:
                owner = min(names, key=lambda name: (shares[name], name))
                shares[owner] += 1
                held[owner].append(place)
        for name in names:
            self._members[name].places = tuple(held[name])
