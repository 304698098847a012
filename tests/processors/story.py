"""Story tables: one line per event and its expected answer. Owns how outputs are told in few words.

A line is (seconds since the story's start, event body, what the machine tells). Facts and replies are
told with the numbers that matter, so that a table reads as the history of one key.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

import msgspec

from processors.machine import Event, Machine, Output
from schemas.generated import types as t

State = TypeVar("State", bound=msgspec.Struct)

T0_MS: Final = 1_796_169_600_000
"""2026-12-02 00:00:00 UTC, the start of a three-hour window."""
Line = tuple[float, Any, str]


def play(
    machine: Machine[State], key: str, lines: Iterable[Line], state: State | None = None
) -> State | None:
    """Folds a table and asserts what each line tells. Returns the last state."""
    for number, (at_s, body, expected) in enumerate(lines, start=1):
        event = Event(
            event_id=f"e{number}", key=key, append_ms=T0_MS + round(at_s * 1_000), body=body
        )
        state, outputs = machine.fold(state, event)
        assert tell(outputs) == expected, f"line {number}, {type(body).__name__} at {at_s} s"
        if state is not None:
            raw = msgspec.msgpack.encode(state)
            assert msgspec.msgpack.decode(raw, type=machine.state) == state
    return state


def tell(outputs: Iterable[Output]) -> str:
    return "; ".join(map(_one, outputs))


def _one(output: Output) -> str:
    value = output.value
    match value:
        case t.EdgeReply():
            assert (output.partition, output.key) == (3, value.request_id)
            return f"{value.request_id} {_reply(value.body)}"
        case t.AdmissionFact() | t.SettlementFact():
            return f"+{value.kind} {value.used}+{value.held}/{value.limit} s{value.slots_used}"
        case t.RunFact():
            return f"+{value.kind}" + (f" {value.terminal}" if value.terminal else "")
        case t.WorkerFact():
            return f"+{value.kind} {value.epochs_lost}"
        case t.UsageFact():
            void = " void" if value.void else ""
            return f"+usage e{value.epoch} {value.input_tokens}/{value.output_tokens}{void}"
        case t.StepRequest():
            return f"step e{value.epoch} on {output.topic.name.removeprefix('inference.')}"
        case t.WorkerControl() | t.StreamControl():
            whom = output.key if isinstance(value, t.WorkerControl) else "closer"
            return f"{whom}#{value.number} {_order(value.body)}"
    return f"{output.key} {_event(value.body)}"


def _reply(body: Any) -> str:
    match body:
        case t.Refused():
            again = " retryable" if body.retryable else ""
            return f"refused {body.code}{again}"
        case t.Repeated():
            how = "same" if body.same else "other"
            return f"repeated {body.generation_id} {how} {body.terminal or 'running'}"
        case t.Limits():
            return "limits " + ", ".join(
                f"{limit.name} {limit.used}+{limit.held}/{limit.limit}" for limit in body.limits
            )
        case t.Status():
            if not body.known:
                return "status unknown"
            stop = " stop" if body.stop_requested else ""
            end = f" {body.terminal}" if body.terminal else ""
            return f"status {body.phase}{stop} {body.hold}{end}"
        case t.Queued():
            return f"queued {body.generation_id}"
    raise AssertionError(body)


def _order(body: Any) -> str:
    match body:
        case t.Open():
            return f"open {body.status}" + (f" stop={body.stop}" if body.stop else "")
        case t.StopOrder():
            return f"stop {body.reason}"
        case t.ClaimRefused():
            return f"refused {body.reason}"
        case t.Current():
            return "current" + (f" stop={body.stop}" if body.stop else "")
        case t.Fenced():
            return f"fenced e{body.epoch}"
        case t.Ended():
            code = f" {body.code}" if body.code else ""
            row = " row" if body.keep_row else ""
            text = f" text e{body.text_epoch} close e{body.closing_epoch}"
            return f"ended {body.terminal}{code} {body.hold}{row}{text}"
    return type(body).__name__.lower()


def _event(body: Any) -> str:
    match body:
        case t.Release():
            return f"release {body.reason}"
        case t.Settle():
            estimated = " estimated" if body.usage.estimated else ""
            return f"settle {body.terminal} {body.usage.output_tokens}{estimated}"
        case t.Used():
            flags = (" void" if body.void else "") + (" estimated" if body.usage.estimated else "")
            return f"used e{body.epoch} {body.usage.output_tokens}{flags}"
        case t.LeaseExpired():
            return f"lease expired {body.generation_id} e{body.epoch} {body.output_tokens}"
        case t.Start():
            return f"start {body.spec.generation_id}"
    return type(body).__name__.lower()
