"""Does the harm of one cell, by pid and by proxy, and writes down what it did and what it saw of it.

Owns the seeded choices of when. Everything it froze goes on again when it heals, whatever happened. What
each cell does is in the tables of `cells`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import time
import uuid
from collections.abc import Callable
from typing import Final

from ops.drill import signs
from ops.drill.finding import Finding, Invariant
from ops.drill.ground import Ground
from ops.drill.load import Load
from ops.drill.result import Bite, Fault
from ops.stack.instance import Instance
from topics.runtime.clock import wall_ms

BACK_S_MAX: Final = 90.0
NAMES: Final = {
    signal.SIGKILL: "kill -9",
    signal.SIGTERM: "SIGTERM",
    signal.SIGSTOP: "SIGSTOP",
    signal.SIGCONT: "SIGCONT",
}


class Nemesis:
    """Of one cell. Use `heal` at its end."""

    def __init__(self, ground: Ground, load: Load, seed: int) -> None:
        self.ground = ground
        self.load = load
        self.chance = random.Random(f"{seed}/nemesis")  # noqa: S311  a seeded choice, no secret
        self.faults: list[Fault] = []
        self.bites: list[Bite] = []
        self.findings: list[Finding] = []
        self.measured: dict[str, float] = {}
        self._frozen: dict[int, str] = {}
        self._beside: list[Instance] = []

    # What is written down.

    def note(self, what: str, part: str) -> None:
        self.faults.append(Fault(wall_ms(), what, part))

    def saw(self, sign: str, seen: bool, note: str = "") -> None:
        """A sign that a fault struck; every one of a cell must have been seen."""
        self.bites.append(Bite(sign, seen, note))

    def require(self, holds: bool, otherwise: str) -> None:
        """A promise that this cell looks at itself; what is not kept is found as dead."""
        if not holds:
            self.findings.append(Finding(Invariant.I7, otherwise))

    def new_key(self) -> str:
        """An idempotency key nobody used."""
        return uuid.UUID(int=self.chance.getrandbits(128), version=4).hex

    # When.

    async def in_the_middle(self, answers: int = 2) -> None:
        """Waits until answers are being read, and then a chosen moment longer."""
        await self.load.until_answering(answers)
        await asyncio.sleep(self.chance.uniform(0.2, 1.5))
        self.saw("answers were being read", self.load.answering > 0, str(self.load.answering))

    async def until(self, condition: Callable[[], bool], s_max: float) -> bool:
        """Waits for something of this process; whether it came."""
        deadline = time.monotonic() + s_max
        while not condition():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.02)
        return True

    async def until_so(self, condition: Callable[[], bool], s_max: float) -> bool:
        """The same for a look that blocks."""
        deadline = time.monotonic() + s_max
        while not await asyncio.to_thread(condition):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.3)
        return True

    # Processes.

    async def send(self, part: str, number: signal.Signals) -> int:
        """A signal to one part. Returns its pid."""
        pid = await asyncio.to_thread(self.ground.stack.hurt, part, number)
        self.note(NAMES[number], part)
        return pid

    async def end(self, part: str, number: signal.Signals = signal.SIGKILL) -> float:
        """Ends one process of a part; returns once another serves in its place, with the seconds that
        took."""
        began = time.monotonic()
        pid = await self.send(part, number)
        await self.back(part, pid)
        return time.monotonic() - began

    async def back(self, part: str, pid: int) -> None:
        """Waits until a part runs under another pid, and says whether it came."""
        await asyncio.to_thread(self.ground.stack.back, part, pid, BACK_S_MAX)
        new = self.ground.stack.part(part).pid
        self.note("is back", part)
        self.saw(f"{part} runs under another pid", new not in (None, pid), f"{pid} → {new}")

    async def freeze(self, part: str, seconds: float) -> int:
        """One part stands still for so long. Returns its pid."""
        pid = await self.stop_moving(part)
        await asyncio.sleep(seconds)
        await self.go_on(pid)
        return pid

    async def stop_moving(self, part: str) -> int:
        """Until `go_on`."""
        pid = await self.send(part, signal.SIGSTOP)
        self._frozen[pid] = part
        quiet = not await signs.answers(self.ground, part)
        self.saw(f"{part} stood still", signs.stopped(pid) and quiet, "and answered nothing")
        return pid

    async def go_on(self, pid: int) -> None:
        part = self._frozen.pop(pid)
        self.saw(f"{part} stood still to the end", signs.stopped(pid))
        os.kill(pid, signal.SIGCONT)
        self.note(NAMES[signal.SIGCONT], part)

    def forget_frozen(self, pid: int) -> None:
        """It will be ended as it stands."""
        self._frozen.pop(pid)

    async def beside(self, machine: str, name: str) -> Instance:
        """A second instance of a machine, serving; it ends when the cell heals."""
        instance = Instance(self.ground.stack, machine, name)
        self._beside.append(instance)
        await asyncio.to_thread(instance.fold)
        self.note("joins", name)
        return instance

    async def leave(self, instance: Instance, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends a second instance."""
        self._beside.remove(instance)
        await asyncio.to_thread(instance.stop, number)
        self.note("leaves" if number is signal.SIGTERM else NAMES[number], instance.name)

    # Connections.

    async def proxy(self, act: Callable[[], object], what: str, part: str) -> None:
        """Lets a proxy misbehave."""
        assert self.ground.proxies is not None, "this cell needs a ground with proxies"
        await self.ground.proxies.do(act)
        self.note(what, part)

    async def heal(self) -> None:
        """Everything moves again."""
        for pid, part in list(self._frozen.items()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self.note(NAMES[signal.SIGCONT], part)
        self._frozen.clear()
        for instance in list(self._beside):
            await self.leave(instance)
        if self.ground.proxies is not None:
            await self.ground.proxies.heal()
        self.note("healed", "all")
