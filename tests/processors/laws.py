"""Laws that every log must obey, as functions over a machine and a log. Owns no test.

Each raises AssertionError where the law is broken, so that a test of a healthy machine calls it and a
test of a seeded bug proves that it bites. Laws look at what the machine tells; at the state only where
the law is about the state.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from processors.admission.plans import Plans
from processors.admission.state import RETAINED_MS, Account
from processors.machine import STATE_BYTES_MAX, Event, Machine, Outputs, stamp
from processors.metering.state import Meter
from processors.runs.state import TRANSITIONS, Runs
from processors.workers.state import LEASE_MS, LIVE_S_MIN, Worker
from schemas.generated import types as t
from schemas.generated.types import Phase
from topics import wire
from topics.errors import NotSupported

State = TypeVar("State", bound=msgspec.Struct)
Log = Sequence[Event]
Step = tuple[Event, Any, Any, Outputs]
"""An event, the state before and after it, and what was told."""
Restart = tuple[int, int, int]
"""Before which offset, how far the offset goes back, and how many table updates are lost."""


def steps(machine: Machine[State], log: Log) -> Iterator[Step]:
    """The log folded from nothing; what is not supported changes nothing, as in the shell."""
    state: State | None = None
    for event in log:
        before = state
        state, outputs = _fold(machine, before, event)
        yield event, before, state, outputs


def law_replay(machine: Machine[State], log: Log, restarts: Sequence[Restart]) -> None:
    """Any prefix replayed any number of times gives the same state and the same set of outputs.

    As in the shell (rule F3), what is in the table is answered from its record, and what the table
    lost is folded again from the state before it, which went through its encoding.
    """
    straight = list(steps(machine, log))
    wanted = {repr(one) for event, _, _, out in straight for one in stamp(out, event.event_id)}
    told: set[str] = set()
    tables = [msgspec.msgpack.encode(None)]
    answers: list[Outputs] = []
    offset = 0
    for at, back, lost in [*restarts, (len(log), 0, 0)]:
        while offset < min(at, len(log)):
            if offset == len(answers):
                event = log[offset]
                state = msgspec.msgpack.decode(tables[-1], type=machine.state | None)
                state, outputs = _fold(machine, state, event)
                tables.append(msgspec.msgpack.encode(state))
                answers.append(stamp(outputs, event.event_id))
            told.update(map(repr, answers[offset]))
            offset += 1
        del answers[max(0, len(answers) - lost) :]
        del tables[len(answers) + 1 :]
        offset = max(0, min(offset, len(answers)) - back)
    last = straight[-1][2] if straight else None
    assert tables[-1] == msgspec.msgpack.encode(last)
    assert told == wanted


def law_deadlines_move(machine: Machine[State], log: Log) -> None:
    """A `Due` at or after a key's deadline moves it into the future, so nothing is due for ever;
    and there is none without a deadline that some event set."""
    for event, before, after, _ in steps(machine, log):
        if before is None or after is None or not isinstance(event.body, t.Due):
            continue
        deadline_ms = machine.next_deadline(before)
        if deadline_ms is not None and deadline_ms <= event.append_ms:
            next_ms = machine.next_deadline(after)
            assert next_ms is None or next_ms > event.append_ms, (deadline_ms, next_ms)


def law_size(machine: Machine[State], log: Log) -> None:
    """A state survives its encoding and stays under the hard cap."""
    for _, _, state, _ in steps(machine, log):
        raw = msgspec.msgpack.encode(state)
        assert len(raw) <= STATE_BYTES_MAX
        assert msgspec.msgpack.decode(raw, type=machine.state | None) == state


def law_wire(machine: Machine[State], log: Log) -> None:
    """All that is told fits the record of its topic and comes back from the wire as it was."""
    for event, _, _, outputs in steps(machine, log):
        for output in stamp(outputs, event.event_id):
            assert output.topic.record == type(output.value).__name__
            assert wire.decode(type(output.value), wire.encode(output.value)) == output.value
        ids = [output.value.event_id for output in stamp(outputs, event.event_id)]
        assert len(set(ids)) == len(ids)


def law_limits_hold(machine: Machine[Account], log: Log, plans: Plans) -> None:
    """`used + held <= limit` in every window and slots within the plan, at every step; none negative;
    and a window's counters are what the admissions and facts add up to."""
    messages_max = max(plan.messages_max for plan in plans.tiers)
    slots_max = max(plan.slots_max for plan in plans.tiers)
    held: Counter[int] = Counter()
    used: Counter[int] = Counter()
    for _, before, after, outputs in steps(machine, log):
        for fact in facts(outputs, t.AdmissionFact, t.SettlementFact):
            assert fact.used + fact.held <= messages_max
            assert fact.slots_used <= slots_max
            assert min(fact.used, fact.held, fact.slots_used) >= 0
            if fact.kind is t.AdmissionKind.ADMITTED:
                assert fact.used + fact.held <= fact.limit
                assert fact.slots_used <= plans.of(fact.tier).slots_max
        for limit in _limits(outputs):
            assert limit.remaining == max(0, limit.limit - limit.used - limit.held)
        for generation in _active(after).keys() - _active(before).keys():
            held[_active(after)[generation].request.counters.window_start_ms] += 1
        for fact in facts(outputs, t.SettlementFact):
            held[fact.window_start_at] -= fact.kind is not t.SettlementKind.SETTLED
            used[fact.window_start_at] += fact.kind is t.SettlementKind.CONSUMED
        for start_ms, window in (after.windows if after else {}).items():
            assert 0 <= window.used + window.held <= messages_max
            assert (window.used, window.held) == (used[start_ms], held[start_ms])
        assert len(_active(after)) <= slots_max


def law_hold_ends_once(machine: Machine[Account], log: Log) -> None:
    """A hold is consumed or released, once; tokens are settled once, after it was consumed; the slot
    is taken from the admission to the end and no longer."""
    consumed: set[str] = set()
    over: dict[str, int] = {}
    for event, before, after, outputs in steps(machine, log):
        for generation in _active(after).keys() - _active(before).keys() & over.keys():
            # Only an identity out of its retention is a new one.
            assert event.append_ms >= over.pop(generation) + RETAINED_MS
            consumed.discard(generation)
        for fact in facts(outputs, t.SettlementFact):
            generation = fact.generation_id
            assert generation not in over, f"{fact.kind} after the end of {generation}"
            if fact.kind is t.SettlementKind.CONSUMED:
                assert generation not in consumed, f"{generation} consumed twice"
                consumed.add(generation)
                continue
            assert (fact.kind is t.SettlementKind.SETTLED) == (generation in consumed)
            over[generation] = event.append_ms
        assert _active(before).keys() - _active(after).keys() <= over.keys()
        assert not over.keys() & _active(after).keys()


def law_refusal_costs_nothing(machine: Machine[Account], log: Log) -> None:
    """A refusal, a repeat and a query change no counter."""
    for _, before, after, outputs in steps(machine, log):
        if _reply_of(outputs) is not None:
            assert _counters(before) == _counters(after)


def law_repeat_is_never_decided_anew(machine: Machine[Account], log: Log) -> None:
    """A request id keeps its decision; a key has one generation, unless that ended before its grant
    and not by its user. Holds for logs shorter than the retention, with few refusals."""
    first: dict[str, Outputs] = {}
    holder: dict[bytes, str] = {}
    unbound: set[str] = set()
    for event, before, after, outputs in steps(machine, log):
        unbound |= {fact.generation_id for fact in facts(outputs, t.SettlementFact) if _frees(fact)}
        if not isinstance(event.body, t.Submit):
            continue
        body = event.body
        repeat = body.request_id in first
        was, reply = _reply_of(first.setdefault(body.request_id, outputs)), _reply_of(outputs)
        held_by = holder.get(body.identity)
        decidable = held_by is None or held_by in unbound
        if isinstance(was, t.Refused) and repeat:
            assert isinstance(reply, t.Refused), f"{body.request_id} was refused before"
            assert reply.code is was.code
        elif isinstance(reply, t.Refused) and reply.code is not t.Code.IDEMPOTENCY_CONFLICT:
            assert decidable, f"{body.request_id} refused, though its key is known"
        elif isinstance(reply, t.Repeated):
            assert reply.generation_id == held_by
            assert was is not None, f"{body.request_id} was admitted before"
        elif repeat and was is None:
            assert outputs == first[body.request_id]
            assert _active(before).keys() == _active(after).keys(), "admitted a second time"
        elif reply is None:
            assert decidable, f"{body.request_id} admitted beside {held_by}"
            first[body.request_id] = outputs
            holder[body.identity] = body.spec.generation_id


def law_runs_end_once(machine: Machine[Runs], log: Log) -> None:
    """One end of one kind for each run: its hold is settled or released once, one fact says so, and
    every `Ended` says the same until the run is closed."""
    ends: Counter[str] = Counter()
    said: dict[str, t.Ended] = {}
    for _, before, after, outputs in steps(machine, log):
        for body in bodies(outputs, t.Settle, t.Release):
            if _in_flight(before, body.generation_id):  # not a start refused before it began
                ends[body.generation_id] += 1
        for order in facts(outputs, t.StreamControl):
            if isinstance(order.body, t.Ended):
                assert said.setdefault(order.generation_id, order.body) == order.body
        for generation in _runs(before).active.keys() - _runs(after).active.keys():
            assert (ends[generation], generation in said) == (1, True), generation
            kinds = [fact.kind for fact in facts(outputs, t.RunFact)]
            assert kinds.count(t.RunKind.ENDED) >= 1
        for generation in _runs(after).active.keys() - _runs(before).active.keys():
            assert before is None or before.phase(generation) is t.Phase.UNKNOWN
            del ends[generation]
            said.pop(generation, None)
        assert max(ends.values(), default=0) <= 1, ends


def law_compute_only_after_a_grant(machine: Machine[Runs], log: Log) -> None:
    """One incarnation is granted an epoch, while it is in flight, and its hold is consumed with it;
    only who was granted settles tokens, is freed, or leaves a final row."""
    granted: dict[str, str] = {}
    for event, before, after, outputs in steps(machine, log):
        for generation in _runs(after).active.keys() - _runs(before).active.keys():
            granted.pop(generation, None)
        for output in outputs:
            order = output.value
            if isinstance(order, t.WorkerControl) and isinstance(order.body, t.Granted):
                assert isinstance(event.body, t.Claim)
                assert _in_flight(before, order.generation_id), "granted, but not in flight"
                first = order.generation_id not in granted
                assert granted.setdefault(order.generation_id, output.key) == output.key
                assert bool(bodies(outputs, t.Consume, t.Owned)) == first
            if isinstance(order, t.WorkersInbox) and isinstance(order.body, t.Freed):
                assert granted.get(order.body.generation_id) == output.key
        for settle in bodies(outputs, t.Settle, t.Consume):
            assert settle.generation_id in granted, "effect of a compute that was never granted"
        for order in facts(outputs, t.StreamControl):
            if isinstance(order.body, t.Ended):
                assert (order.body.text_epoch > 0) == (order.generation_id in granted)
                assert order.body.keep_row <= (order.generation_id in granted)
        for used in bodies(outputs, t.Used):
            assert used.void or granted.get(used.generation_id) == used.incarnation


def law_used_once(machine: Machine[Runs], log: Log) -> None:
    """An epoch's tokens count once, and a lost one's void tokens once per incarnation."""
    told: set[tuple[str, int, str, bool]] = set()
    for _, before, after, outputs in steps(machine, log):
        for generation in _runs(after).active.keys() - _runs(before).active.keys():
            told = {one for one in told if one[0] != generation}
        for used in bodies(outputs, t.Used):
            one = (used.generation_id, used.epoch, used.incarnation, used.void)
            assert one not in told, one
            told.add(one)


def law_numbers_grow(machine: Machine[Runs], log: Log) -> None:
    """Control records of a generation are numbered one by one while it is known."""
    last: Counter[str] = Counter()
    for _, before, after, outputs in steps(machine, log):
        for generation in _runs(after).active.keys() - _runs(before).active.keys():
            del last[generation]
        for order in facts(outputs, t.StreamControl, t.WorkerControl):
            if order.number > 0:
                assert order.number == last[order.generation_id] + 1, order
                last[order.generation_id] = order.number


def law_transitions(machine: Machine[Runs], log: Log) -> set[tuple[Phase, str, Phase]]:
    """A run moves as the table of transitions says. Returns the moves seen."""
    seen: set[tuple[Phase, str, Phase]] = set()
    for event, before, after, _ in steps(machine, log):
        old, new = _runs(before), _runs(after)
        known = {*old.active, *old.ended, *old.closed, *new.active, *new.ended, *new.closed}
        for generation in known:
            move = (old.phase(generation), type(event.body).__name__, new.phase(generation))
            if move[0] is not move[2]:
                assert move in TRANSITIONS, move
                seen.add(move)
    return seen


def law_a_lease_ends_once(machine: Machine[Worker], log: Log) -> None:
    """A grant ends by `Freed` or as expired, once; and it expires only when its incarnation said so or
    was silent for a lease's length while the log was seen alive, or was over already."""
    held: dict[str, int] = {}
    heard_ms: int | None = None
    for event, before, _, outputs in steps(machine, log):
        body = event.body
        over = before is not None and before.over
        if isinstance(body, t.Owned):
            held[body.generation_id] = max(body.epoch, held.get(body.generation_id, 0))
            heard_ms = event.append_ms if before is None else heard_ms
        if isinstance(body, t.Freed) and held.get(body.generation_id, 99) <= body.epoch:
            del held[body.generation_id]
        expired = bodies(outputs, t.LeaseExpired)
        for one in expired:
            assert held.pop(one.generation_id, None) == one.epoch, one
            assert one.incarnation == event.key
            if isinstance(body, t.Due):
                assert heard_ms is not None
                assert event.append_ms - heard_ms >= LEASE_MS
                assert body.live_s >= LIVE_S_MIN
            else:
                assert over or isinstance(body, t.Left)
        if over or any(fact.kind is t.WorkerKind.LEFT for fact in facts(outputs, t.WorkerFact)):
            assert not held, "a lease outlived its incarnation"
        if (
            isinstance(body, t.Heartbeat)
            and not over
            and body.beat >= (before.beat if before else 0)
        ):
            heard_ms = event.append_ms


def law_usage_told_once(machine: Machine[Meter], log: Log) -> None:
    """One usage fact for each epoch and incarnation, until the generation is forgotten."""
    told: set[tuple[int, str]] = set()
    for event, _, after, outputs in steps(machine, log):
        if after is None:
            told.clear()
        for fact in facts(outputs, t.UsageFact):
            one = (fact.epoch, event.body.incarnation)
            assert one not in told
            told.add(one)


def facts(outputs: Outputs, *kinds: type) -> list[Any]:
    return [output.value for output in outputs if isinstance(output.value, kinds)]


def bodies(outputs: Outputs, *kinds: type) -> list[Any]:
    """Bodies of envelopes among the outputs."""
    found = (getattr(output.value, "body", None) for output in outputs)
    return [body for body in found if isinstance(body, kinds)]


def _fold(
    machine: Machine[State], state: State | None, event: Event
) -> tuple[State | None, Outputs]:
    try:
        return machine.fold(state, event)
    except NotSupported:
        return state, ()


def _active(state: Account | None) -> dict[str, Any]:
    return {} if state is None else state.active


def _runs(state: Runs | None) -> Runs:
    return Runs() if state is None else state


def _in_flight(state: Runs | None, generation: str) -> bool:
    return generation in _runs(state).active


def _counters(state: Account | None) -> Any:
    return ({}, {}) if state is None else (state.windows, state.active)


def _frees(fact: t.SettlementFact) -> bool:
    by_user = fact.release_reason in {t.ReleaseReason.CANCELLED, t.ReleaseReason.STOPPED}
    return fact.kind is t.SettlementKind.RELEASED and not by_user


def _reply_of(outputs: Outputs) -> Any:
    return next(iter(fact.body for fact in facts(outputs, t.EdgeReply)), None)


def _limits(outputs: Outputs) -> Iterator[t.Limit]:
    for body in bodies(outputs, t.Start, t.Limits):
        yield from body.limits
