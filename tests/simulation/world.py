"""The whole world of one seed: broker, machines, workers, closer, edges, faults, laws, and its end.

Owns the wiring and what must be true when all faults are over. `run(seed, plan)` is the only door.
"""

import asyncio
import traceback
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from processors.admission.machine import accounts_machine
from processors.admission.settings import AccountsSettings
from processors.machine import Machine
from processors.metering.machine import metering_machine
from processors.runs.machine import runs_machine
from processors.workers.machine import workers_machine
from schemas.generated.types import Lane
from tests.simulation.askers import Asker, Promises
from tests.simulation.broker import COMPACTION_LAG_MS, Broker, Place, Rec
from tests.simulation.groups import Group
from tests.simulation.laws import Books
from tests.simulation.loop import Process, SimulationLoop
from tests.simulation.machine import Host
from tests.simulation.nemesis import Nemesis, RequestFaults
from tests.simulation.oracle import Broken, Oracle
from tests.simulation.plans import Plan
from tests.simulation.trace import Trace
from tests.simulation.units import Unit
from tests.simulation.workers import PlayedCloser, PlayedWorker
from topics.models import SCRIPTED
from topics.registry import CONTROL_STREAMS, LANE_TOPICS, MACHINE_INBOXES

PLANS: Final = AccountsSettings(messages_max_free=5, messages_max_paid=9).plans()
EDGES: Final = 2
WORKERS: Final = 2
LOOK_S: Final = 1.0
LAG_MS_MAX: Final = 3_000
"""In peace, everything is folded, told and committed within this."""


class Outcome(msgspec.Struct, frozen=True):
    """What a run was like."""

    seed: int
    plan: str
    failure: str | None
    marks: dict[str, int]
    digest: str
    steps: int
    records: int
    virtual_s: float
    last: list[str]


def machines() -> list[Machine[Any]]:
    return [accounts_machine(PLANS), runs_machine(), workers_machine(), metering_machine()]


class World:
    """Made of a seed and a plan; nothing else goes in."""

    def __init__(self, seed: int, plan: Plan) -> None:
        self._seed = seed
        self.plan = plan
        self.loop = SimulationLoop(self._rng("schedule"))
        self.trace = Trace(self.loop.time)
        self.faults = RequestFaults(self._rng("requests"), plan, self.loop, self.trace)
        self.broker = Broker(self.loop, self._rng("broker"), self.trace, self.faults)
        self.books = Books(PLANS)
        self.promises = Promises()
        self.oracles: dict[str, Oracle] = {}
        self._by_inbox: dict[str, Oracle] = {}
        self.hosts: dict[str, list[Host]] = {}
        self.units: list[Unit] = []
        self.groups: list[Group] = []
        self.broker.on_append.append(self._appended)
        chance = self._rng("world")
        for machine in machines():
            self._add_machine(machine, chance.randint(1, plan.instances))
        lanes = [LANE_TOPICS[(SCRIPTED.pool, lane)].name for lane in (Lane.PAID, Lane.FREE)]
        self._lane_groups = [self._group(f"lanes-{name}", [name]) for name in lanes]
        self._closers = self._group("closer", [CONTROL_STREAMS.name])
        for at in range(WORKERS):
            self._add(f"worker-{at}", self._worker(f"worker-{at}"))
        self._add("closer-0", self._closer)
        for at in range(EDGES):
            self._add(f"edge-{at}", self._edge(f"edge-{at}", at))

    def run(self) -> Outcome:
        failure = None
        try:
            self.loop.run(self._main())
        except Exception as error:  # noqa: BLE001 - whatever broke, this seed shows it
            failure = f"{type(error).__name__}: {error}"
            if not isinstance(error, AssertionError):
                failure += f" at {describe(error)}"
            self.trace.say("world", failure)
        for mark in self.books.marks:
            self.trace.mark(mark)
        return Outcome(
            self._seed,
            self.plan.name,
            failure,
            dict(self.trace.marks),
            self.trace.digest(self.loop.schedule),
            self.loop.steps,
            sum(self.broker.counts().values()),
            self.loop.time(),
            self.trace.last(400),
        )

    # --- wiring

    def _rng(self, name: str) -> Random:
        return Random(f"{self._seed}/{name}")

    def _group(self, name: str, topics: list[str]) -> Group:
        group = Group(self.broker, self.trace, name, topics)
        self.groups.append(group)
        return group

    def _add(self, name: str, main: Any) -> None:
        self.units.append(Unit(self.loop, self._rng(f"unit {name}"), self.trace, name, main))

    def _add_machine(self, machine: Machine[Any], instances: int) -> None:
        oracle = Oracle(machine, self.broker, self.trace, self.books.step)
        self.oracles[machine.name] = self._by_inbox[machine.inbox.name] = oracle
        self.hosts[machine.name] = []
        group = self._group(f"milena-{machine.name}", [machine.inbox.name])

        owners: dict[int, str] = {}

        def main(process: Process, life: int, name: str) -> Any:
            host = Host(self.broker, self.trace, group, machine, process, name, life, owners)
            self.hosts[machine.name].append(host)
            return host.main()

        for at in range(instances):
            name = f"{machine.name}-{at}"
            self._add(name, lambda process, life, n=name: main(process, life, n))

    def _worker(self, name: str) -> Any:
        async def main(process: Process, life: int) -> None:
            rng = self._rng(f"{name} {life}")
            worker = PlayedWorker(
                self.broker, self.trace, rng, self.books, self._lane_groups, name, life
            )
            await worker.serve()

        return main

    async def _closer(self, process: Process, life: int) -> None:
        PlayedCloser(
            self.broker, self.trace, self._rng(f"closer {life}"), self._closers, "closer-0", life
        )

    def _edge(self, name: str, place: int) -> Any:
        async def main(process: Process, life: int) -> None:
            rng = self._rng(f"{name} {life}")
            asker = Asker(self.broker, self.trace, rng, self.promises, process.name, place)
            await asker.ask_forever(self.plan.ask_pause_s, self.plan.work_s)

        return main

    def _appended(self, place: Place, rec: Rec) -> None:
        by = rec.by.name if rec.by is not None else "nobody"
        self.trace.say(
            by, f"{place[0]}/{place[1]}@{rec.offset} {rec.key[:40]!r} {len(rec.value or b'')}"
        )
        machine = by.rpartition("-")[0]
        if machine in self.oracles:
            self.oracles[machine].check(place, rec)
        oracle = self._by_inbox.get(place[0])
        if oracle is not None:
            oracle.fold(place[1], rec)

    # --- the course of a run

    async def _main(self) -> None:
        for unit in self.units:
            unit.start()
        nemesis = Nemesis(
            self._rng("nemesis"),
            self.plan,
            self.broker,
            self.trace,
            self.units,
            self.groups,
            self.faults,
        )
        await nemesis.strike_until_rest()
        until_s = max(self.loop.time(), self.plan.work_s) + self.plan.settle_s
        while (unsettled := self._unsettled()) and self.loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
        if unsettled:
            raise Broken(f"I7: {self.plan.settle_s} s after the last fault: {unsettled}")
        await asyncio.sleep(2 * COMPACTION_LAG_MS / 1_000)
        nemesis.compact()
        for name, oracle in self.oracles.items():
            oracle.whole(self._tables(name), self.broker.now_ms() - LAG_MS_MAX)

    def _unsettled(self) -> str | None:
        """The first thing that is not over yet."""
        if self.loop.time() < self.plan.work_s:
            return "the workload"
        for generation, hold in self.books.holds.items():
            if hold.over is None:
                return f"the hold of {generation} is open"
        for generation in self.books.started:
            if generation not in self.books.ended:
                return f"{generation} has not ended"
            if generation not in self.books.closed:
                return f"{generation} is not closed"
        for name, oracle in self.oracles.items():
            owned = {p for host in self.hosts[name] if host.serves for p in host.partitions}
            if len(owned) != MACHINE_INBOXES[name].ring.partitions(local=True):
                return f"{name} folds partitions {sorted(owned)} only"
            before_ms = self.broker.now_ms() - LAG_MS_MAX
            if not all(h.caught_up(before_ms) for h in self.hosts[name] if h.serves):
                return f"{name} lags behind"
            if missing := oracle.missing(before_ms):
                return f"{name} never told {missing[:3]}"
        return None

    def _tables(self, name: str) -> dict[int, dict[bytes, bytes]]:
        return {
            partition: host.table
            for host in self.hosts[name]
            if host.serves
            for partition in host.partitions
        }


def describe(error: BaseException) -> str:
    """Where an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    return " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
