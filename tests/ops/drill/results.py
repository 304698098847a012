"""Results of cells as a drill leaves them: passed, failed, and one whose fault did not bite."""

import math
from typing import Final

from ops.drill.finding import Finding, Invariant
from ops.drill.result import Bite, CellResult, Fault, Sample

T0: Final = 1_796_169_600_000


def samples(down_from: int, down_to: int, count: int = 40) -> list[Sample]:
    """A look a second; nothing ends and `runs` tells no lag while it is down."""
    found = []
    for second in range(count):
        down = down_from <= second < down_to
        lag = {"accounts": 2 + second % 3, "workers": 1, "metering": 0}
        if not down:
            after = max(0, second - down_to)
            lag["runs"] = round(220 * math.exp(-after / 2)) if second >= down_to else 3
        found.append(Sample(T0 + second * 1_000, 0 if down else 3 + second % 4, lag))
    return found


def passed(name: str = "runs-kill", row: str = "2") -> CellResult:
    return CellResult(
        name=name,
        row=row,
        seed=7,
        began_ms=T0,
        healed_ms=T0 + 21_000,
        ended_ms=T0 + 41_000,
        faults=[
            Fault(T0 + 12_000, "kill -9", "runs"),
            Fault(T0 + 15_300, "is back", "runs"),
            Fault(T0 + 17_000, "SIGSTOP", "worker-scripted"),
            Fault(T0 + 21_000, "healed", "all"),
        ],
        bites=[Bite("runs runs under another pid", True, "12 → 15")],
        findings=[],
        looked_at={
            "calls": 120,
            "ok": 100,
            "fail": 12,
            "unknown": 8,
            "accepted": 96,
            "streamed events": 2_400,
            "generations": 90,
            "rows": 90,
        },
        samples=samples(12, 16),
        measured={"back_s": 3.3, "resumed_s": 4.5},
    )


def failed() -> CellResult:
    finding = Finding(
        Invariant.I3,
        "a hold ended twice <script>",
        "gen_01",
        "00",
        ("consumed: 2", "settled: 1"),
    )
    made = passed("rebalance-storm", "7")
    made.findings = [finding]
    made.faults = [
        fault
        for at in range(10)
        for fault in (
            Fault(T0 + 8_000 + at * 1_200, "joins", f"runs-beside-{at % 3}"),
            Fault(T0 + 8_700 + at * 1_200, "leaves", f"runs-beside-{at % 3}"),
        )
    ]
    made.measured = {"back_s": 9.0}
    return made


def did_not_bite() -> CellResult:
    made = passed("worker-sleeps", "6")
    made.bites = [Bite("a lease was lost", False, "0 | none")]
    made.faults = []
    made.samples = []
    made.error = "TimeoutError in until_answering: nobody answered"
    return made
