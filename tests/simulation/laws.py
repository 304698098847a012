"""The invariants that folds keep together: one end, one settlement, quota, one grant, no lost request.

Owns the books of the whole world, kept from what the folds say step by step. Looks at no process.
"""

from typing import Any, Final

from processors.admission.plans import Plans
from processors.machine import Event, Output
from schemas.generated import types as t
from tests.simulation.oracle import Broken

REVIVED: Final = frozenset({t.ReleaseReason.CANCELLED, t.ReleaseReason.STOPPED})
"""Releases after which the key stays bound to its generation."""


class Hold:
    """One admission in the books."""

    def __init__(self, user: str, identity: bytes, at_ms: int) -> None:
        self.user = user
        self.identity = identity
        self.at_ms = at_ms
        self.consumed = False
        self.over: str | None = None


class Books:
    """Kept over all machines; every method raises `Broken` at the first lie."""

    def __init__(self, plans: Plans) -> None:
        self._plans = plans
        self._submits: dict[str, bytes] = {}
        self.holds: dict[str, Hold] = {}
        self.keys: dict[tuple[str, bytes], str] = {}
        self.ended: dict[str, t.Terminal] = {}
        self.closed: set[str] = set()
        self.started: set[str] = set()
        self.refused: set[str] = set()
        self.granted: dict[tuple[str, int], str] = {}
        self.metered: set[tuple[str, int, str]] = set()
        self.computed: dict[tuple[str, int], str] = {}
        self.marks: list[str] = []

    def step(
        self, machine: str, event: Event, before: Any, after: Any, outputs: tuple[Output, ...]
    ) -> None:
        """One fold of one machine."""
        if isinstance(event.body, t.Submit):
            self._submits[event.body.request_id] = event.body.identity
        for output in outputs:
            value = output.value
            match value:
                case t.AdmissionFact():
                    self._admission(value)
                case t.SettlementFact():
                    self._settlement(value)
                case t.RunFact():
                    self._run(value)
                case t.UsageFact():
                    self._usage(event, value)
                case t.WorkerControl() if isinstance(value.body, t.Granted):
                    self._grant(output.key, value)
        self._notice(event, outputs)

    def computes(self, generation: str, epoch: int, incarnation: str) -> None:
        """A worker began to compute."""
        owner = self.granted.get((generation, epoch))
        if owner != incarnation:
            raise Broken(f"I5: {incarnation} computes {generation}/{epoch}, granted to {owner}")
        if self.computed.setdefault((generation, epoch), incarnation) != incarnation:
            raise Broken(f"I5: {generation}/{epoch} is computed twice")

    def _admission(self, fact: t.AdmissionFact) -> None:
        if fact.used + fact.held > fact.limit:
            raise Broken(f"I3: {fact.user_id} has {fact.used}+{fact.held} of {fact.limit}")
        if fact.kind is not t.AdmissionKind.ADMITTED or fact.generation_id in self.holds:
            return
        if fact.slots_used > self._plans.of(fact.tier).slots_max:
            raise Broken(f"I3: {fact.user_id} has {fact.slots_used} slots")
        identity = self._submits[fact.request_id]
        key = (fact.user_id, identity)
        known = self.keys.get(key)
        if known is not None and self.holds[known].over != "released":
            raise Broken(f"I1: one key, two generations: {known} and {fact.generation_id}")
        if known is not None:
            self.marks.append("key decided afresh")
        self.keys[key] = fact.generation_id
        self.holds[fact.generation_id] = Hold(fact.user_id, identity, fact.at)
        live = [one for one in self.holds.values() if one.user == fact.user_id and one.over is None]
        if len(live) != fact.slots_used:
            raise Broken(f"I3: {fact.user_id} says {fact.slots_used} slots, holds {len(live)}")
        spent = [
            one
            for one in self.holds.values()
            if one.user == fact.user_id and (one.over is None or one.consumed)
        ]
        if len(spent) > fact.limit:
            raise Broken(f"I3: {fact.user_id} was given {len(spent)} of {fact.limit}")

    def _settlement(self, fact: t.SettlementFact) -> None:
        hold = self.holds.get(fact.generation_id)
        if hold is None or hold.over is not None:
            raise Broken(f"I3: {fact.kind} of {fact.generation_id}, {hold and hold.over}")
        if fact.used + fact.held > fact.limit or min(fact.used, fact.held) < 0:
            raise Broken(f"I3: {fact.user_id} has {fact.used}+{fact.held} of {fact.limit}")
        if fact.kind is t.SettlementKind.CONSUMED:
            if hold.consumed:
                raise Broken(f"I3: {fact.generation_id} consumed twice")
            hold.consumed = True
        elif fact.kind is t.SettlementKind.SETTLED:
            if not hold.consumed:
                raise Broken(f"I3: {fact.generation_id} settled, never consumed")
            hold.over = "settled"
        else:
            if hold.consumed:
                raise Broken(f"I3: {fact.generation_id} released, was consumed")
            hold.over = "stopped" if fact.release_reason in REVIVED else "released"

    def _run(self, fact: t.RunFact) -> None:
        generation = fact.generation_id
        match fact.kind:
            case t.RunKind.QUEUED:
                if generation in self.started:
                    raise Broken(f"I2: {generation} started twice")
                self.started.add(generation)
            case t.RunKind.REFUSED:
                self.refused.add(generation)
            case t.RunKind.ENDED:
                if generation in self.ended:
                    raise Broken(f"I2: {generation} ended twice")
                if generation not in self.started:
                    raise Broken(f"I2: {generation} ended and never began")
                self.ended[generation] = fact.terminal or t.Terminal.UNKNOWN
            case t.RunKind.CLOSED:
                self.closed.add(generation)
            case t.RunKind.LEASE_LOST:
                self.marks.append("lease expired")

    def _grant(self, incarnation: str, control: t.WorkerControl) -> None:
        place = (control.generation_id, control.epoch)
        if self.granted.setdefault(place, incarnation) != incarnation:
            raise Broken(f"I5: {place} granted to {self.granted[place]} and {incarnation}")
        if control.generation_id in self.ended:
            raise Broken(f"I5: {place} granted after its end")

    def _usage(self, event: Event, fact: t.UsageFact) -> None:
        assert isinstance(event.body, t.Used)
        place = (fact.generation_id, fact.epoch, event.body.incarnation)
        if place in self.metered:
            raise Broken(f"I3: {place} metered twice")
        self.metered.add(place)

    def _notice(self, event: Event, outputs: tuple[Output, ...]) -> None:
        match event.body:
            case t.Stop() if any(_is(o, t.RunKind.ENDED) for o in outputs):
                self.marks.append("stop before grant")
            case t.Stop() if event.body.generation_id in self.ended:
                self.marks.append("stop after the end")
            case t.Stop() if any(_is(o, t.RunKind.STOP_REQUESTED) for o in outputs):
                self.marks.append("stop while running")
            case t.Due() if any(_is(o, t.RunKind.ENDED) for o in outputs):
                self.marks.append("ended by a deadline")
            case t.Due() if any(isinstance(o.value, t.StreamControl) for o in outputs):
                self.marks.append("Ended said again")
            case t.Claim() if any(
                isinstance(o.value, t.WorkerControl) and isinstance(o.value.body, t.ClaimRefused)
                for o in outputs
            ):
                self.marks.append("claim refused")
            case t.Submit():
                for output in outputs:
                    if isinstance(output.value, t.AdmissionFact):
                        self.marks.append(f"submit {output.value.kind.value}")


def _is(output: Output, kind: t.RunKind) -> bool:
    return isinstance(output.value, t.RunFact) and output.value.kind is kind
