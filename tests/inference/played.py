"""Machines that answer a worker by a short rule, and the clock of a test.

By the contract: the first claim of an epoch is granted, the owner is current, all others are not.
"""

import asyncio
from typing import Any

from connectors.log import Record
from schemas.generated.types import (
    Claim,
    ClaimRefusal,
    ClaimRefused,
    Current,
    Fenced,
    Finished,
    Granted,
    Heartbeat,
    Left,
    Probe,
    RunsInbox,
    StopOrder,
    StopReason,
    WorkerControl,
    WorkersInbox,
)
from tests.support.log_double import LogDouble
from topics import wire
from topics.registry import CONTROL_WORKERS, RUNS_INBOX, WORKERS_INBOX


class Clock:
    """Elapsed and broker time of a test: the loop's, plus what the test adds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ahead_s = 0.0

    def s(self) -> float:
        return 1_000_000.0 + self._loop.time() + self.ahead_s

    def ms(self) -> int:
        return int(self.s() * 1_000)


class Machines:
    """Plays runs and workers by the contract: grants the first claim of a current epoch."""

    def __init__(self, log: LogDouble, clock: Clock, played: bool) -> None:
        self._log = log
        self._played = played
        self._clock = clock
        self._owner: dict[tuple[str, int], str] = {}
        self._numbers: dict[str, int] = {}
        self._over: set[tuple[str, int]] = set()
        self._stops: dict[str, StopReason] = {}
        self.silent_claims = 0
        """So many claims are not answered."""
        self.refuse: ClaimRefusal | None = None
        self.run_ms = 60_000
        self.beats: list[tuple[str, Heartbeat]] = []
        self.left: list[str] = []
        self.claims: list[Claim] = []
        self.probes: list[Probe] = []
        self.finished: list[Finished] = []
        self._readers = [
            log.assigned(topic, partition, self._read)
            for topic in (RUNS_INBOX, WORKERS_INBOX)
            for partition in range(log.partitions(topic))
        ]

    def control(self, incarnation: str, generation_id: str, epoch: int, body: Any) -> None:
        number = self._numbers[generation_id] = self._numbers.get(generation_id, 0) + 1
        self._log.send(
            CONTROL_WORKERS,
            incarnation,
            WorkerControl(
                event_id=f"{generation_id}/{number}",
                generation_id=generation_id,
                epoch=epoch,
                number=number,
                body=body,
            ),
        )

    def stop(self, generation_id: str, epoch: int = 1) -> None:
        self._stops[generation_id] = StopReason.USER
        self.control(
            self._owner[(generation_id, epoch)],
            generation_id,
            epoch,
            StopOrder(reason=StopReason.USER),
        )

    def end(self, generation_id: str, epoch: int = 1) -> None:
        """The run is over without the worker."""
        self._over.add((generation_id, epoch))

    def owner(self, generation_id: str, epoch: int = 1) -> str | None:
        return self._owner.get((generation_id, epoch))

    def ended(self, generation_id: str) -> Finished | None:
        return next((f for f in self.finished if f.generation_id == generation_id), None)

    def _read(self, records: list[Record]) -> None:
        for record in records:
            if record.topic == WORKERS_INBOX.name:
                told = wire.decode(WorkersInbox, record.value).body
                if isinstance(told, Heartbeat):
                    self.beats.append((record.key, told))
                elif isinstance(told, Left):
                    self.left.append(record.key)
                continue
            body = wire.decode(RunsInbox, record.value).body
            if isinstance(body, Claim):
                self._claimed(body)
            elif isinstance(body, Probe):
                self.probes.append(body)
                self._probed(body)
            elif isinstance(body, Finished):
                self.finished.append(body)
                self._over.add((body.generation_id, body.epoch))

    def _claimed(self, claim: Claim) -> None:
        self.claims.append(claim)
        if not self._played:
            return
        if self.silent_claims:
            self.silent_claims -= 1
            return
        self.grant(claim)

    def grant(self, claim: Claim) -> None:
        """Answers a claim by the rule."""
        key = (claim.generation_id, claim.epoch)
        answer: Granted | ClaimRefused
        if self.refuse is not None:
            answer = ClaimRefused(reason=self.refuse)
        elif self._owner.setdefault(key, claim.incarnation) == claim.incarnation:
            answer = Granted(
                admitted_at_ms=self._clock.ms(),
                run_deadline_at_ms=self._clock.ms() + self.run_ms,
            )
        else:
            answer = ClaimRefused(reason=ClaimRefusal.NOT_CURRENT)
        self.control(claim.incarnation, claim.generation_id, claim.epoch, answer)

    def _probed(self, probe: Probe) -> None:
        if not self._played:
            return
        key = (probe.generation_id, probe.epoch)
        answer: Current | Fenced
        if key in self._over or self._owner.get(key) != probe.incarnation:
            answer = Fenced(epoch=probe.epoch + 1)
        else:
            answer = Current(stop=self._stops.get(probe.generation_id))
        self.control(probe.incarnation, probe.generation_id, probe.epoch, answer)
