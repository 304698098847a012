"""Each check of the drill finds the one thing that breaks it, and nothing in a healthy cell."""

from typing import Any

import msgspec
import pytest

from connectors.store.rows import ResultStatus
from ops.drill.check import CHECKS, MEMORY_GROWTH_BYTES_MAX, check
from ops.drill.check_lives import GRACE_MS
from ops.drill.evidence import FACTS, TOPICS, Call, Evidence, Memory, Shown, lives_of
from ops.drill.finding import Invariant
from ops.verify import findings
from schemas.generated import types as t
from tests.ops.drill.cells import (
    GEN,
    HEALED,
    admission,
    ask,
    cell,
    delta,
    life,
    lived,
    resume,
    row,
    run,
    settlement,
    shown,
    used,
)
from tests.ops.verify.world import answered

CONSUMED, RELEASED, SETTLED = (
    settlement(kind)
    for kind in (t.SettlementKind.CONSUMED, t.SettlementKind.RELEASED, t.SettlementKind.SETTLED)
)
DIFFERENCE = findings.Difference(
    check=findings.Check.STATE,
    machine="accounts",
    topic="t",
    partition=0,
    offset=1,
    key="usr_1",
    field="state",
    log="1",
    found="0",
)


def runs(*more: t.RunFact, without: t.RunKind | None = None) -> dict[str, Any]:
    """The evidence with more run facts, or without some."""
    kept = [fact for fact in life().runs if fact.kind is not without]
    return {"lives": lived(runs=[*kept, *more])}


def settled(*facts: t.SettlementFact) -> dict[str, Any]:
    return {"lives": lived(settlement=list(facts))}


def streamed(*events: Shown, **more: Any) -> dict[str, Any]:
    return {"seen": [ask(shown=events, **more)]}


CREATED, FIRST, SECOND, END = shown()
BROKEN: dict[str, tuple[dict[str, Any], Invariant, str]] = {
    "accepted, unknown to the log": ({"lives": {}}, Invariant.I1, "never admitted"),
    "accepted, never ended": (runs(without=t.RunKind.ENDED), Invariant.I1, "run never ended"),
    "accepted, no row": ({"rows": {}}, Invariant.I1, "no row of its end"),
    "admitted for nobody, never ended": (
        {**runs(without=t.RunKind.ENDED), "seen": []},
        Invariant.I1,
        "admitted, but its run never ended",
    ),
    "two ends": (runs(run(t.RunKind.ENDED, event_id="e2")), Invariant.I2, "2 ends in the log"),
    "another end in the store": (
        {"rows": {GEN: row(status=ResultStatus.FAILED)}},
        Invariant.I2,
        "ended completed, stored failed",
    ),
    "an event after the terminal": (
        streamed(CREATED, FIRST, SECOND, END, Shown("2-4", "text.delta", delta(8, "x"))),
        Invariant.I2,
        "events after a terminal",
    ),
    "two terminals seen": (
        {"seen": [ask(), ask(client="01", shown=(*shown()[:3], Shown("2-3", "error", b"{}")))]},
        Invariant.I2,
        "two terminals",
    ),
    "another terminal than the log's": (
        streamed(*shown()[:3], Shown("2-3", "cancelled", b"{}")),
        Invariant.I2,
        "a client saw cancelled, the log says completed",
    ),
    "another terminal than the store's": (
        {"rows": {GEN: row(terminal_id="2-9")}},
        Invariant.I2,
        "a client saw terminal 2-3, the store has 2-9",
    ),
    "settled twice": (
        settled(CONSUMED, SETTLED, msgspec.structs.replace(SETTLED, event_id="s2")),
        Invariant.I3,
        "a hold ended twice",
    ),
    "released and consumed": (
        settled(CONSUMED, RELEASED, SETTLED),
        Invariant.I3,
        "released and consumed",
    ),
    "settled, never consumed": (settled(SETTLED), Invariant.I3, "never consumed"),
    "a hold without end": (settled(CONSUMED), Invariant.I3, "its hold never did"),
    "tokens twice": (
        {"lives": lived(usage=[used(), used(event_id="u2")])},
        Invariant.I3,
        "tokens count twice",
    ),
    "other tokens metered": (
        {"lives": lived(usage=[used(output_tokens=6)])},
        Invariant.I3,
        "other tokens settled than metered",
    ),
    "a fact over the limit": (
        {"lives": lived(admission=[admission(used=3, held=1)])},
        Invariant.I3,
        "3 used and 1 held of 3",
    ),
    "more admissions than the limit": (
        {
            "lives": {
                name: msgspec.structs.replace(life(), admission=[admission(generation_id=name)])
                for name in (GEN, "g-b", "g-c", "g-d")
            }
        },
        Invariant.I3,
        "4 admissions kept of 3",
    ),
    "a gap in an epoch": (
        streamed(CREATED, FIRST, Shown("1-3", "text.delta", delta(4, " TCP")), END),
        Invariant.I4,
        "a gap: 1-3",
    ),
    "a sequence that falls across epochs": (
        streamed(CREATED, FIRST, SECOND, Shown("2-2", "completed", b"{}")),
        Invariant.I4,
        "a gap: 2-2",
    ),
    "a repeat after a resume": (
        {"seen": [ask(shown=shown()[:3]), resume(after="1-2", shown=(SECOND, END))]},
        Invariant.I4,
        "1-2 after 1-2",
    ),
    "a delta without a place": (
        streamed(CREATED, FIRST, Shown("1-2", "text.delta", delta(5, "TCP")), END),
        Invariant.I4,
        "begins at 5, the page ends at 4",
    ),
    "another text than stored": (
        {"rows": {GEN: row(text="Über UDP")}},
        Invariant.I4,
        "not the stored text from code point 5 on",
    ),
    "an older epoch after a newer": (
        streamed(CREATED, Shown("2-1", "text.delta", delta(0, "x")), FIRST),
        Invariant.I5,
        "an event of epoch 1 after one of 2",
    ),
    "ended by a lost epoch": (
        runs(run(t.RunKind.GRANTED, event_id="g2", epoch=2)),
        Invariant.I5,
        "ended by epoch 1, the last one granted is 2",
    ),
    "an epoch with two owners": (
        runs(run(t.RunKind.GRANTED, event_id="g2", incarnation="w2")),
        Invariant.I5,
        "granted to two incarnations",
    ),
    "a lost epoch's tokens": (
        {"lives": lived(usage=[used(epoch=2)])},
        Invariant.I5,
        "tokens of lost epoch 2 count",
    ),
    "a row of a worker's epoch": (
        {"rows": {GEN: row(epoch=1)}},
        Invariant.I5,
        "the row is of epoch 1",
    ),
    "the log is another": (
        {"differences": [DIFFERENCE]},
        Invariant.I6,
        "state of accounts, state: log 1, found 0",
    ),
    "the log cannot be judged": ({"unjudged": "in flight"}, Invariant.I6, "cannot be judged"),
    "closed too late": (
        runs(
            run(t.RunKind.CLOSED, event_id="c2", at=HEALED + 5_001 + GRACE_MS),
            without=t.RunKind.CLOSED,
        ),
        Invariant.I7,
        "closed 0.0 s after its deadline",
    ),
    "still open": (runs(without=t.RunKind.CLOSED), Invariant.I7, "still open 25.0 s"),
    "no answer after the heal": (
        {"seen": [ask(status=None, generation_id="", shown=(), began_ms=HEALED + GRACE_MS + 1)]},
        Invariant.I7,
        "ask got no answer, 30.0 s after",
    ),
    "a stream cut after the heal": (
        streamed(CREATED, FIRST, began_ms=HEALED + GRACE_MS + 1),
        Invariant.I7,
        "without its terminal",
    ),
    "a foreign stream": (
        {"seen": [ask(user_id="usr_2", call=Call.RESUME, idempotency_key="")]},
        Invariant.I8,
        "resume of a foreign generation got 200",
    ),
    "a foreign status": (
        {"seen": [ask(user_id="usr_2", call=Call.STATUS, shown=())]},
        Invariant.I8,
        "status of a foreign generation",
    ),
    "memory": (
        {"memory": [Memory("edge", 1, 2 + MEMORY_GROWTH_BYTES_MAX)]},
        Invariant.I9,
        "edge grew by 96 MiB",
    ),
    "one key, two generations": (
        {
            "seen": [ask(), ask(client="01", generation_id="g-b", shown=())],
            "lives": {GEN: life(), "g-b": life()},
            "rows": {GEN: row(), "g-b": row()},
        },
        Invariant.KEY,
        "one key, two generations",
    ),
    "another body accepted": (
        {"seen": [ask(), ask(client="01", body="b2", shown=())]},
        Invariant.KEY,
        "another body under a key was accepted",
    ),
    "a conflict with itself": (
        {"seen": [ask(), ask(status=409, code="idempotency_conflict", shown=())]},
        Invariant.KEY,
        "a conflict with its own body",
    ),
}


def test_a_healthy_cell_holds_and_tells_how_much_it_saw() -> None:
    verdict = check(cell())
    assert verdict.held, verdict.findings
    assert verdict.looked_at == {
        "calls": 2,
        "ok": 2,
        "fail": 0,
        "unknown": 0,
        "accepted": 1,
        "streamed events": 4,
        "generations": 1,
        "rows": 1,
    }


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(name: str) -> None:
    changes, invariant, words = BROKEN[name]
    found = check(cell(**changes)).findings
    matching = [one for one in found if one.invariant is invariant and words in one.what]
    assert matching, found


def test_every_check_is_broken_by_something() -> None:
    silent = {one.__name__ for one in CHECKS}
    for changes, _, _ in BROKEN.values():
        silent -= {one.__name__ for one in CHECKS if list(one(cell(**changes)))}
    assert not silent


HEALTHY: dict[str, dict[str, Any]] = {
    "another body is a conflict": {
        "seen": [ask(), ask(status=409, code="idempotency_conflict", body="b2", shown=())]
    },
    "a key decided afresh after a release by the system": {
        "seen": [ask(generation_id="g-0", shown=()), ask()],
        "lives": {
            GEN: life(),
            "g-0": msgspec.structs.replace(
                life(),
                admission=[admission(generation_id="g-0")],
                settlement=[
                    msgspec.structs.replace(RELEASED, release_reason=t.ReleaseReason.QUEUE_DEADLINE)
                ],
                runs=[
                    run(t.RunKind.ENDED, terminal=t.Terminal.FAILED),
                    run(t.RunKind.CLOSED, terminal=t.Terminal.FAILED),
                ],
                usage=[],
            ),
        },
        "rows": {GEN: row(), "g-0": row(status=ResultStatus.FAILED, text="")},
    },
    "a snapshot that follows a delta without a place": streamed(
        CREATED,
        Shown("1-2", "text.delta", delta(4, " TCP")),
        Shown("1-3", "snapshot", b'{"text":"\xc3\x9cber TCP"}'),
        Shown("2-4", "completed", b"{}"),
    )
    | {"rows": {GEN: row(terminal_id="2-4")}},
    "a refusal of a foreign generation": {
        "seen": [ask(), ask(user_id="usr_2", call=Call.STATUS, status=404, shown=())]
    },
    "no answer while the faults last": {
        "seen": [ask(), ask(status=None, generation_id="", shown=(), began_ms=HEALED)]
    },
    "a refused start": {
        "lives": lived(
            settlement=[msgspec.structs.replace(RELEASED, used=0)],
            runs=[run(t.RunKind.REFUSED)],
            usage=[],
        ),
        "seen": [],
        "rows": {},
    },
}


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_allowed_is_not_found(name: str) -> None:
    assert check(cell(**HEALTHY[name])).findings == []


async def test_lives_are_read_from_the_log_each_fact_once() -> None:
    world = await answered("a")
    reads = [read for topic in TOPICS for read in world.of(topic)]
    facts = [read for read in reads if read.topic in FACTS]
    lives = lives_of([*reads, *facts])
    assert lives.keys() == {"g-a"}
    found = lives["g-a"]
    assert found.spec is not None
    assert found.admitted is not None
    assert [fact.kind.value for fact in found.settlement] == ["consumed", "settled"]
    assert [fact.kind.value for fact in found.runs] == ["queued", "granted", "ended", "closed"]
    assert len(found.usage) == 1


def test_findings_of_one_check_are_bounded() -> None:
    many = [ask(client=str(n), shown=(END, END), generation_id=f"g{n}") for n in range(300)]
    evidence: Evidence = cell(seen=many, lives={}, rows={})
    assert len(check(evidence).findings) < 100 * len(CHECKS)
