"""One healthy cell as evidence, for tests that break one thing of it."""

import json
from typing import Any, Final

import msgspec

from connectors.store.rows import Result, ResultStatus
from ops.drill.evidence import Call, Evidence, Life, Memory, Seen, Shown
from schemas.generated import types as t
from tests.processors.events import spec, usage

T0: Final = 1_000_000
HEALED: Final = T0 + 10_000
TEXT: Final = "Über TCP"
GEN: Final = "g-a"
USER: Final = "usr_1"


def shown(*, epoch: int = 1) -> tuple[Shown, ...]:
    """A whole stream: two deltas and the terminal of the closing epoch."""
    return (
        Shown("", "created", b"{}"),
        Shown(f"{epoch}-1", "text.delta", delta(0, TEXT[:4])),
        Shown(f"{epoch}-2", "text.delta", delta(4, TEXT[4:])),
        Shown(f"{epoch + 1}-3", "completed", b"{}"),
    )


def delta(offset: int, text: str) -> bytes:
    return json.dumps({"index": 0, "offset": offset, "delta": text}).encode()


def ask(**more: Any) -> Seen:
    told: dict[str, Any] = {
        "client": "00",
        "user_id": USER,
        "call": Call.ASK,
        "began_ms": T0,
        "ended_ms": T0 + 900,
        "status": 200,
        "generation_id": GEN,
        "idempotency_key": "key",
        "body": "b1",
        "shown": shown(),
    }
    return Seen(**{**told, **more})


def admission(**more: Any) -> t.AdmissionFact:
    told: dict[str, Any] = {
        "event_id": "adm",
        "kind": t.AdmissionKind.ADMITTED,
        "at": T0,
        "user_id": USER,
        "request_id": "a",
        "generation_id": GEN,
        "model": "scripted",
        "window_start_at": 0,
        "limit": 3,
        "used": 0,
        "held": 1,
        "slots_used": 1,
        "plan_version": "p",
    }
    return t.AdmissionFact(**{**told, **more})


def settlement(kind: t.SettlementKind, **more: Any) -> t.SettlementFact:
    told: dict[str, Any] = {
        "event_id": kind.value,
        "kind": kind,
        "at": T0 + 500,
        "user_id": USER,
        "generation_id": GEN,
        "window_start_at": 0,
        "limit": 3,
        "used": 1,
        "held": 0,
        "slots_used": 0,
        "usage": usage(5) if kind is t.SettlementKind.SETTLED else None,
    }
    return t.SettlementFact(**{**told, **more})


def run(kind: t.RunKind, **more: Any) -> t.RunFact:
    told: dict[str, Any] = {
        "event_id": kind.value,
        "kind": kind,
        "at": T0 + 800,
        "generation_id": GEN,
        "user_id": USER,
        "model": "scripted",
        "model_version": "1",
        "pool": "scripted",
        "epoch": 1,
        "terminal": t.Terminal.COMPLETED if kind is t.RunKind.ENDED else None,
        "incarnation": "w1" if kind is t.RunKind.GRANTED else None,
    }
    return t.RunFact(**{**told, **more})


def used(**more: Any) -> t.UsageFact:
    told: dict[str, Any] = {
        "event_id": "use",
        "at": T0 + 800,
        "generation_id": GEN,
        "epoch": 1,
        "user_id": USER,
        "model": "scripted",
        "model_version": "1",
        "pool": "scripted",
        "void": False,
        "input_tokens": 7,
        "cached_input_tokens": 0,
        "output_tokens": 5,
        "estimated": False,
        "run_ms": 300,
    }
    return t.UsageFact(**{**told, **more})


def life() -> Life:
    return Life(
        spec=spec(GEN),
        admission=[admission()],
        settlement=[settlement(t.SettlementKind.CONSUMED), settlement(t.SettlementKind.SETTLED)],
        runs=[
            run(t.RunKind.QUEUED),
            run(t.RunKind.GRANTED),
            run(t.RunKind.ENDED),
            run(t.RunKind.CLOSED),
        ],
        usage=[used()],
    )


def row(**more: Any) -> Result:
    told: dict[str, Any] = {
        "generation_id": GEN,
        "user_id": USER,
        "status": ResultStatus.COMPLETED,
        "model": "scripted",
        "epoch": 2,
        "text": TEXT,
        "code_points": len(TEXT),
        "finish_reason": t.FinishReason.STOP,
        "error_code": None,
        "partial": True,
        "input_tokens": 7,
        "cached_input_tokens": 0,
        "output_tokens": 5,
        "hold": t.Hold.CONSUMED,
        "terminal_id": "2-3",
        "admitted_at_ms": T0,
        "ended_at_ms": T0 + 800,
    }
    return Result(**{**told, **more})


def cell(**more: Any) -> Evidence:
    """Healthy: one answer, read once to its end and once more after a resume."""
    told: dict[str, Any] = {
        "seen": [ask(shown=shown()[:2]), resume(after="1-1", shown=shown()[2:])],
        "lives": {GEN: life()},
        "rows": {GEN: row()},
        "healed_ms": HEALED,
        "read_ms": HEALED + 60_000,
        "answer_s_max": 5.0,
        "memory": [Memory("edge", 100_000_000, 110_000_000)],
    }
    return Evidence(**{**told, **more})


def resume(**more: Any) -> Seen:
    return ask(
        **{
            "call": Call.RESUME,
            "idempotency_key": "",
            "body": "",
            "began_ms": T0 + 1_000,
            "ended_ms": T0 + 1_500,
            **more,
        }
    )


def lived(**more: Any) -> dict[str, Life]:
    """The healthy life with other facts."""
    return {GEN: msgspec.structs.replace(life(), **more)}
