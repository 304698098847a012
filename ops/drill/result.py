"""What one cell of the drill came to: its faults, whether they bit, and what was found. Values only.

Owns the shapes that are written down and read by the report. Judges nothing.
"""

from __future__ import annotations

import msgspec

from ops.drill.finding import Finding


class Fault(msgspec.Struct, frozen=True):
    """One thing the nemesis did. `at_ms` is epoch milliseconds."""

    at_ms: int
    what: str
    """"kill -9", "stop", "go on", "cut", …"""
    part: str


class Bite(msgspec.Struct, frozen=True):
    """One sign that a fault struck: what was looked for, whether it was seen, and what was seen."""

    sign: str
    seen: bool
    note: str = ""


class Sample(msgspec.Struct, frozen=True):
    """One look during the load: answers that ended since the last one, and what every machine has
    not committed yet. A part that did not answer has no number."""

    at_ms: int
    ended: int
    lag: dict[str, int]


class CellResult(msgspec.Struct, kw_only=True):
    """Everything of one cell. Times are epoch milliseconds."""

    name: str
    row: str
    """Of the fault matrix, "1" to "19", or the case: "P1"."""
    seed: int
    began_ms: int
    healed_ms: int
    ended_ms: int
    faults: list[Fault]
    bites: list[Bite]
    findings: list[Finding]
    looked_at: dict[str, int]
    """How much evidence the checker had."""
    samples: list[Sample] = []
    measured: dict[str, float] = {}
    """Figures of this cell, with their unit in the name: "resumed_s"."""
    error: str = ""
    """Why the cell could not be run to its end; empty where it was."""

    @property
    def bit(self) -> bool:
        """A cell whose fault did not strike proves nothing, and fails."""
        return bool(self.bites) and all(bite.seen for bite in self.bites)

    @property
    def passed(self) -> bool:
        return self.bit and not self.findings and not self.error
