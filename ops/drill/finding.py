"""One broken promise, with what shows it. Owns the names of the invariants."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Invariant(StrEnum):
    """The names of the fault matrix."""

    I1 = "I1 no accepted loss"
    I2 = "I2 one terminal"
    I3 = "I3 one settlement, quota bound"
    I4 = "I4 stream contiguous, rendered is stored"
    I5 = "I5 old epochs dropped"
    I6 = "I6 state is the folded log"
    I7 = "I7 alive after the faults"
    I8 = "I8 no foreign data"
    I9 = "I9 memory bounded"
    KEY = "idempotency key is one generation"


class Finding(msgspec.Struct, frozen=True):
    """`evidence` are lines for a person: facts, events, calls; ids and numbers, no text."""

    invariant: Invariant
    what: str
    generation_id: str = ""
    client: str = ""
    evidence: tuple[str, ...] = ()
