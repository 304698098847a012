"""The faults of a run, drawn from its seed. Owns when what goes wrong; knows no machine's inside.

Small ones strike requests as they pass (`Faults`), large ones come in their own time (`Nemesis`).
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from schemas.generated import types as t
from tests.simulation.broker import Broker, Draft, Fate, Place, Rec
from tests.simulation.groups import SESSION_S, Group
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.plans import Plan
from tests.simulation.trace import Trace
from tests.simulation.units import Unit
from topics import wire
from topics.partition import partition_of
from topics.registry import ACCOUNTS_INBOX, CHANGELOGS, MACHINE_INBOXES

POISONS: Final = (b"", b"{}", b"\x00\x00\x00\x00\x00", b"\x00\x7f\xff\xff\xffno such schema", None)
INBOXES: Final = tuple(sorted(topic.name for topic in MACHINE_INBOXES.values()))
CHANGELOG_NAMES: Final = frozenset(topic.name for topic in CHANGELOGS.values())
FINE: Final = Fate()


class RequestFaults:
    """What happens to requests; `on` from the start until the nemesis rests."""

    def __init__(self, rng: Random, plan: Plan, loop: SimulationLoop, trace: Trace) -> None:
        self._rng = rng
        self._plan = plan
        self._loop = loop
        self._trace = trace
        self._slow: dict[str, tuple[float, float]] = {}
        self.on = plan.faults_s > 0
        self.abandon: Callable[[Process], None] = loop.kill
        """Kills a process and keeps its place empty for a while."""

    def slow(self, topic: str, until_s: float, most_s: float) -> None:
        self._slow[topic] = (until_s, most_s)

    def latency_s(self, place: Place | None) -> float:
        base_s = 0.0004 + 0.002 * self._rng.random()
        if place is not None and place[0] in self._slow:
            until_s, most_s = self._slow[place[0]]
            if self._loop.time() < until_s:
                return base_s + most_s * self._rng.random()
            del self._slow[place[0]]
        return base_s

    def fate(self, process: Process, place: Place) -> Fate:
        if not self.on:
            return FINE
        drawn, plan = self._rng.random(), self._plan
        if place[0] in CHANGELOG_NAMES and drawn > 1 - plan.stray:
            return self._stray(process, place)
        if drawn >= plan.lost_reply + plan.late_reply + plan.refused:
            return FINE
        after_s = self._rng.uniform(0.2, 8.0)
        if drawn < plan.lost_reply:
            self._trace.mark("reply lost")
            self._trace.say(process.name, f"hears no answer to {place}")
            return Fate(True, after_s, error=True)
        if drawn < plan.lost_reply + plan.late_reply:
            self._trace.mark("reply late")
            return Fate(True, after_s)
        self._trace.mark("append refused")
        return Fate(False, after_s, error=True)

    def _stray(self, process: Process, place: Place) -> Fate:
        """The sender is gone and its instance stays down; what it sent arrives after the takeover."""
        self._trace.mark("a dead process's request arrives late")
        self._trace.say(process.name, f"dies with a request for {place} on its way")
        self.abandon(process)
        return Fate(late_s=self._rng.uniform(0.5, 1.8) * SESSION_S)

    def appended(self, process: Process | None, place: Place, rec: Rec) -> None:
        if not self.on or process is None or not process.alive:
            return
        if self._rng.random() < self._plan.killed_at_append:
            self._trace.mark("killed between append and answer")
            self._trace.say(process.name, f"is killed behind {place} {rec.offset}")
            self._loop.kill(process)


class Nemesis:
    """Strikes until `plan.faults_s`, then repairs everything."""

    def __init__(
        self,
        rng: Random,
        plan: Plan,
        broker: Broker,
        trace: Trace,
        units: list[Unit],
        groups: list[Group],
        faults: RequestFaults,
    ) -> None:
        self._rng = rng
        self._plan = plan
        self._broker = broker
        self._loop = broker.loop
        self._trace = trace
        self._units = units
        self._groups = groups
        self._faults = faults
        self._count = 0
        faults.abandon = self._abandon
        self._strikes: dict[str, Callable[[], None]] = {
            "kill": self._kill,
            "kill at a step": self._kill_at_a_step,
            "kill two": self._kill_two,
            "pause": lambda: self._pause(self._rng.uniform(0.2, 0.9 * SESSION_S)),
            "zombie": lambda: self._pause(self._rng.uniform(1.1, 2.0) * SESSION_S),
            "stall": self._stall,
            "rebalance": self._rebalance,
            "compact": self.compact,
            "duplicate": self._duplicate,
            "gap": self._gap,
            "slow": self._slow,
            "poison": self._poison,
            "flood": self._flood,
        }

    async def strike_until_rest(self) -> None:
        names, weights = [*self._plan.weights], [*self._plan.weights.values()]
        while names:
            await asyncio.sleep(self._rng.expovariate(1 / self._plan.fault_pause_s))
            if self._loop.time() >= self._plan.faults_s:
                break
            [name] = self._rng.choices(names, weights)
            self._trace.mark(f"fault: {name}")
            self._strikes[name]()
        self._rest()

    def _rest(self) -> None:
        self._trace.say("nemesis", "rests")
        self._faults.on = False
        self._loop.wake_at = -1
        self._broker.go_on()
        for unit in self._units:
            unit.repair()

    def _unit(self) -> Unit:
        return self._rng.choice(self._units)

    def _kill(self) -> None:
        unit = self._unit()
        self._trace.say("nemesis", f"kills {unit.name}")
        if self._rng.random() < 0.3:
            unit.hold_down(self._rng.uniform(1.1, 1.6) * SESSION_S)
        unit.kill()

    def _abandon(self, process: Process) -> None:
        for unit in self._units:
            if unit.process is process:
                unit.hold_down(self._rng.uniform(0.3, 1.6) * SESSION_S)
        self._loop.kill(process)

    def _kill_at_a_step(self) -> None:
        unit = self._unit()

        def strike() -> None:
            self._trace.say("nemesis", f"kills {unit.name} at step {self._loop.steps}")
            unit.kill()

        self._loop.woken = strike
        self._loop.wake_at = self._loop.steps + self._rng.randrange(1, 400)

    def _kill_two(self) -> None:
        for unit in self._rng.sample(self._units, 2):
            self._trace.say("nemesis", f"kills {unit.name}")
            unit.kill()

    def _pause(self, seconds: float) -> None:
        unit = self._unit()
        process = unit.process
        if process is None or process.stopped or not process.alive:
            return
        self._trace.say("nemesis", f"stops {unit.name} for {seconds:.1f} s")
        self._loop.stop_process(process)

        def go_on() -> None:
            if process.stopped:
                self._trace.say("nemesis", f"continues {unit.name}")
                self._loop.continue_process(process)

        self._loop.call_later(seconds, go_on)

    def _stall(self) -> None:
        seconds = self._rng.choice((0.5, 2.0, 9.0, 13.0))
        self._trace.say("nemesis", f"stalls the broker for {seconds} s")
        self._broker.stall()
        self._loop.call_later(seconds, self._broker.go_on)

    def _rebalance(self) -> None:
        self._rng.choice(self._groups).shake()

    def compact(self) -> None:
        """Every changelog, as the broker's cleaner would at any moment."""
        gone = sum(self._broker.compact(topic.name) for topic in CHANGELOGS.values())
        self._trace.say("nemesis", f"compacts {gone} records away")

    def _duplicate(self) -> None:
        """Records come again at other offsets, as from a producer that retried after its death."""
        topic = self._rng.choice(INBOXES)
        places = [place for place in self._broker.parts if place[0] == topic]
        place = self._rng.choice(places)
        records = [rec for rec in self._broker.parts[place].records if rec is not None]
        for rec in self._rng.sample(records, min(len(records), self._rng.randrange(1, 4))):
            self._broker.append(place, Draft(rec.key, rec.value, rec.headers))

    def _gap(self) -> None:
        place = self._rng.choice([p for p in self._broker.parts if p[0] in INBOXES])
        self._broker.gap(place)

    def _slow(self) -> None:
        topic = self._rng.choice(sorted({topic for topic, _ in self._broker.parts}))
        if self._rng.random() < 0.7:
            topic = self._rng.choice(INBOXES)
        until_s = self._loop.time() + self._rng.uniform(1.0, 6.0)
        self._faults.slow(topic, until_s, self._rng.choice((0.05, 0.4, 2.0)))
        self._trace.say("nemesis", f"slows {topic}")

    def _poison(self) -> None:
        place = self._rng.choice([p for p in self._broker.parts if p[0] in INBOXES])
        self._broker.append(place, Draft(b"ann", self._rng.choice(POISONS)))

    def _flood(self) -> None:
        """One key gets more than may be remembered before a commit."""
        self._count += 1
        for at in range(self._rng.randrange(70, 100)):
            name = f"flood-{self._count}-{at}"
            query = t.Query(request_id=name, reply_partition=0, tier=t.Tier.FREE, user_id="ann")
            value = wire.encode(t.AccountsInbox(event_id=name, body=query))
            partition = partition_of("ann", ACCOUNTS_INBOX.ring.partitions(local=True))
            self._broker.append((ACCOUNTS_INBOX.name, partition), Draft(b"ann", value))
