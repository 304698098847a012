"""The whole product in one world: real workers, closer and edges, Redis, the store and people's devices.

Owns what the world of the machines lacks: the wiring of the real parts, their faults, and what clients saw
as the last word. Everything else is `world.py`.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, Final

from schemas.generated.types import Tier
from tests.simulation.closer import RealCloser
from tests.simulation.devices import Device
from tests.simulation.edge import Doors, RealEdge, User, register
from tests.simulation.groups import Group
from tests.simulation.history import History
from tests.simulation.loop import Process
from tests.simulation.plans import Plan
from tests.simulation.redis import SimulatedRedis
from tests.simulation.store import SimulatedStore
from tests.simulation.units import Unit
from tests.simulation.worker import RealWorker
from tests.simulation.world import World

DEVICES: Final = 2
PART_NAMES: Final = ("worker", "closer", "edge")
USERS: Final = (
    User.named("ann", Tier.FREE),
    User.named("ben", Tier.FREE),
    User.named("cas", Tier.PAID),
)


class WholeWorld(World):
    """Made of a seed and a plan; nothing else goes in."""

    def __init__(self, seed: int, plan: Plan) -> None:
        super().__init__(seed, plan)
        self._topic_groups: dict[str, Group] = {
            topic: group for group in self.groups for topic in group._topics
        }
        self.redis = SimulatedRedis(self.loop, self._rng("redis"), self.trace)
        self.store = SimulatedStore(self.loop, self._rng("store"), self.trace)
        self.doors = Doors(self.loop, self._rng("doors"))
        self.history = History(self.trace.mark, self._known)
        self._stops: dict[str, Callable[[], None]] = {}
        """SIGTERM for the life that each part lives now."""
        self._devices = [
            Unit(self.loop, self._rng(f"unit device-{at}"), self.trace, f"device-{at}", main)
            for at in range(DEVICES)
            for main in [self._device(f"device-{at}")]
        ]

    # --- the real parts

    def _worker(self, name: str) -> Any:
        async def main(process: Process, life: int) -> None:
            worker = RealWorker(
                self.broker,
                self.trace,
                self._rng(f"{name} {life}"),
                self._topic_groups,
                self.redis,
                self.store.store,
                self.books.computes,
                name,
                life,
            )
            self._stops[name] = worker.stop
            await worker.main(process)

        return main

    async def _closer(self, process: Process, life: int) -> None:
        closer = RealCloser(
            self.broker,
            self.trace,
            self._rng(f"closer {life}"),
            self._topic_groups,
            self.redis,
            self.store.store,
            "closer-0",
            life,
        )
        self._stops["closer-0"] = closer.stop
        await closer.main(process)

    def _edge(self, name: str, place: int) -> Any:
        async def main(process: Process, life: int) -> None:
            edge = RealEdge(
                self.broker,
                self._rng(f"{name} {life}"),
                self._topic_groups,
                self.redis,
                self.store.store,
                self.doors,
                name,
                place,
                life,
            )
            self._stops[name] = edge.stop
            await edge.main(process)

        return main

    def _device(self, name: str) -> Any:
        async def main(process: Process, life: int) -> None:
            rng = self._rng(f"{name} {life}")
            device = Device(self.loop, self.trace, rng, self.doors, self.history, USERS)
            await device.ask_forever(self.plan.ask_pause_s, self.plan.work_s)

        return main

    def _known(self, generation_id: str) -> bool:
        """Whether the store knows whose it is; Redis may forget at any moment."""
        row = self.store.store.kept_result(generation_id)
        return self.store.store.kept_payload(generation_id) is not None or (
            row is not None and row.ended
        )

    # --- the course of a run

    async def _main(self) -> None:
        for user in USERS:
            await register(self.store.store, user)
        for unit in self._devices:
            unit.start()
        self.loop.create_task(self._hurt())
        await super()._main()
        self.history.compare(self.store.store.kept_result)

    async def _hurt(self) -> None:
        rng = self._rng("hurt")
        strikes: dict[str, Callable[[], None]] = {
            **self.redis.strikes(lambda: [*self.books.started]),
            **self.store.strikes(),
            "part killed": lambda: self._part(rng).kill(),
            "part told to stop": lambda: self._stop(self._part(rng)),
            "part frozen": lambda: self._freeze(self._part(rng), rng.choice((0.5, 4.0, 9.0, 14.0))),
        }
        names = [*strikes]
        while self.plan.faults_s:
            await asyncio.sleep(rng.expovariate(1 / self.plan.fault_pause_s))
            if self.loop.time() >= self.plan.faults_s:
                break
            strikes[rng.choice(names)]()
        self.redis.rest()
        self.store.rest()
        for unit in self._parts():
            unit.repair()

    def _parts(self) -> list[Unit]:
        return [unit for unit in self.units if unit.name.partition("-")[0] in PART_NAMES]

    def _part(self, rng: Random) -> Unit:
        return rng.choice(self._parts())

    def _stop(self, unit: Unit) -> None:
        process = unit.process
        if process is not None and process.alive and unit.name in self._stops:
            self.trace.mark("fault: part told to stop")
            self.trace.say("hurt", f"tells {unit.name} to stop")
            self.loop.call_soon(self._stops[unit.name], context=self.loop.context_of(process))

    def _freeze(self, unit: Unit, seconds: float) -> None:
        process = unit.process
        if process is not None and process.alive and not process.stopped:
            self.trace.say("hurt", f"freezes {unit.name} for {seconds} s")
            self.loop.stop_process(process)
            self.loop.call_later(seconds, self.loop.continue_process, process)

    def _unsettled(self) -> str | None:
        return super()._unsettled() or self.history.unread()
