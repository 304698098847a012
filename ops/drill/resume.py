"""How long a machine's decisions pause at a kill -9, with very many keys: filled through the machine,
killed again and again, measured on the broker's clock.

Owns the one machine on a broker of its own. A pause is over when every partition of the inbox was decided
again.
"""

from __future__ import annotations

import json
import signal
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from ops.drill import many_keys
from ops.drill.cell import Cell, Measure, Needs
from ops.drill.finding import Finding, Invariant
from ops.drill.lag import Lags
from ops.drill.result import Bite, CellResult, Fault
from ops.log_scan import records
from ops.stack.fresh import DidNotCome, FreshStack
from ops.stack.instance import Instance
from schemas.generated import types as t
from topics import wire
from topics.partition import partition_of
from topics.registry import (
    FACTS_ADMISSION,
    FACTS_RUNS,
    FACTS_USAGE,
    FACTS_WORKERS,
    MACHINE_INBOXES,
)
from topics.runtime.clock import wall_ms
from topics.topic import Topic

KEYS: Final = 50_000
KILLS: Final = 5
RESUMED_S_MAX: Final = 20.0
FILL_S_MAX: Final = 400.0
STEP: Final = 500
BEHIND_MAX: Final = 8_000
"""Records that wait while a machine is filled, at most: a few seconds' work."""
PAUSE_S: Final = 0.5
"""What the supervisor waits before it starts a machine again."""
PROBE_S: Final = 0.1
TOLD: Final[dict[str, tuple[Topic, type[Any], Callable[[str], str], str]]] = {
    "accounts": (FACTS_ADMISSION, t.AdmissionFact, many_keys.generation_of, "generation_id"),
    "runs": (FACTS_RUNS, t.RunFact, many_keys.generation_of, "generation_id"),
    "workers": (FACTS_WORKERS, t.WorkerFact, str, "incarnation"),
    "metering": (FACTS_USAGE, t.UsageFact, str, "generation_id"),
}
"""Where a machine tells of a key's first event, and by which name."""
SETTINGS: Final = {
    "MILENA_STACK_PARTS": "kafka,topics",
    "MILENA_ACCOUNTS_MESSAGES_MAX_PAID": "1000000",
}


def measure(
    machine: str, data: Path, seed: int, stopping: threading.Event, count: int = KEYS
) -> CellResult:
    """Blocking, for minutes.

    Raises:
        DidNotCome: the broker or the machine did not start, it did not fold in time, or it was told to
            stop.
    """
    began_ms = wall_ms()
    stack = FreshStack(data, SETTINGS)
    stack.start()
    try:
        one = _Measured(stack, machine, stopping)
        try:
            one.fill(count)
            for _ in range(KILLS):
                one.kill(count)
        finally:
            one.end()
    finally:
        stack.stop()
    median_s = statistics.median(one.resumed_s)
    findings = []
    if median_s > RESUMED_S_MAX:
        what = f"{machine} decided again after {median_s:.1f} s, not within {RESUMED_S_MAX:g}"
        findings.append(Finding(Invariant.I7, what))
    measured = {
        "keys": float(count),
        "resumed_median_s": median_s,
        "resumed_max_s": max(one.resumed_s),
        "filled_s": one.filled_s,
    }
    return CellResult(
        name=f"resume/{machine}",
        row="2",
        seed=seed,
        began_ms=began_ms,
        healed_ms=wall_ms(),
        ended_ms=wall_ms(),
        faults=one.faults,
        bites=one.bites,
        findings=findings,
        looked_at={"keys": count, "kills": len(one.resumed_s)},
        measured=measured,
    )


class _Measured:
    def __init__(self, stack: FreshStack, machine: str, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._bootstrap = f"127.0.0.1:{stack.base + 10}"
        self._machine = machine
        self._inbox = MACHINE_INBOXES[machine]
        self._partitions = self._inbox.ring.partitions(local=True)
        self._instance = Instance(stack, machine, f"{machine}-0")
        self._lags = Lags(self._bootstrap)
        self._probes = 0
        self._producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 0,
            }
        )
        self.faults: list[Fault] = []
        self.bites: list[Bite] = []
        self.resumed_s: list[float] = []
        self.filled_s = 0.0

    def end(self) -> None:
        self._instance.stop(signal.SIGKILL)
        self._lags.close()

    def fill(self, count: int) -> None:
        """Every key's life, through the machine, which is never far behind: what waits in an inbox past
        its deadline would bring a `Due` for every key."""
        self._instance.fold()
        began = time.monotonic()
        deadline = began + FILL_S_MAX
        for number, key in enumerate(many_keys.keys(self._machine, "kept", count)):
            self._append(key)
            if number % STEP == STEP - 1:
                self._folded(BEHIND_MAX, deadline)
        self._folded(0, deadline)
        self.filled_s = round(time.monotonic() - began, 1)

    def _folded(self, behind: int, deadline_s: float) -> None:
        """Waits until no more than so many records wait for the machine."""
        if self._producer.flush(60):
            raise DidNotCome("the broker did not take the events")
        while not 0 <= self._lags.now().get(self._machine, -1) <= behind:
            self._go_on(deadline_s)
            time.sleep(0.1)

    def _go_on(self, deadline_s: float) -> None:
        if self._stopping.is_set():
            raise DidNotCome("told to stop")
        if time.monotonic() > deadline_s:
            raise DidNotCome(f"{self._machine} does not decide in time, see {self._instance.log}")

    def kill(self, count: int) -> None:
        """One kill -9, and the seconds until every partition was decided again."""
        old = self._instance.pid
        since = self._instance.log.stat().st_size
        self._instance.stop(signal.SIGKILL)
        killed_ms = wall_ms()
        self.faults.append(Fault(killed_ms, "kill -9", self._machine))
        started = time.monotonic()
        waiting = dict[str, int]()
        decided = dict[int, int]()
        while len(decided) < self._partitions:
            self._go_on(started + 6 * RESUMED_S_MAX)
            if not self._instance.running and time.monotonic() - started > PAUSE_S:
                self._instance.start()
            waiting |= self._probe()
            time.sleep(PROBE_S)
            if self._instance.running and self._instance.ready:
                self._look(killed_ms, waiting, decided)
        self.resumed_s.append(round((max(decided.values()) - killed_ms) / 1_000, 2))
        self.faults.append(Fault(max(decided.values()), "decides again", self._machine))
        kept = self._kept(since)
        self.bites.append(
            Bite(
                "another process decided",
                self._instance.pid != old,
                f"{old} → {self._instance.pid}",
            )
        )
        self.bites.append(Bite(f"it recovered {count} keys", kept >= count, f"{kept} keys"))

    def _probe(self) -> dict[str, int]:
        """The first event of a new key in every partition: name it is told by -> partition."""
        sent: dict[str, int] = {}
        while len(sent) < self._partitions:
            self._probes += 1
            (key,) = many_keys.keys(self._machine, f"probe/{self._probes}", 1)
            partition = partition_of(key, self._partitions)
            if partition not in sent.values():
                sent[TOLD[self._machine][2](key)] = partition
                self._append(key)
        self._producer.poll(0)
        return sent

    def _look(self, killed_ms: int, waiting: dict[str, int], decided: dict[int, int]) -> None:
        topic, kind, _, name = TOLD[self._machine]
        for read in records(self._bootstrap, [topic], killed_ms):
            partition = waiting.get(getattr(wire.decode(kind, read.value), name))
            if partition is not None:
                decided[partition] = min(read.append_ms, decided.get(partition, read.append_ms))

    def _append(self, key: str) -> None:
        partition = partition_of(key, self._partitions)
        for event in many_keys.events(self._machine, key, wall_ms()):
            while True:
                try:
                    self._producer.produce(
                        self._inbox.name, key=key, value=wire.encode(event), partition=partition
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)

    def _kept(self, since: int) -> int:
        """Keys that the newest life found in its changelog, as it says itself."""
        with self._instance.log.open("rb") as file:
            file.seek(since)
            lines = file.read().decode("utf-8", "replace").splitlines()
        told = [json.loads(line) for line in lines if '"machine folds"' in line]
        return int(told[-1]["keys"]) if told else 0


def measuring(machine: str) -> Measure:
    return lambda data, seed, stopping: measure(machine, data, seed, stopping)


CELLS: Final = tuple(
    Cell(
        name=f"resume/{machine}",
        row="2",
        what=f"{KILLS} times kill -9 of {machine} with {KEYS:,} keys, until it decides again",
        needs=Needs.BROKER,
        measure=measuring(machine),
    )
    for machine in TOLD
)
