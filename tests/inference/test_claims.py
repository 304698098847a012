"""Claims: when to send, when again, and what one answer answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.claims import Claims, Proposal
from inference.scheduler import ReadAhead, Request
from schemas.generated.types import Lane, Spec, StepRequest

PLACE = ("lane", 0)


def request(number: int, offset: int | None = None, place: tuple[str, int] = PLACE) -> Request:
    spec = Spec(
        generation_id=f"gen_{number}",
        runs_key="run_1",
        model="m",
        model_version="m@1",
        pool="p",
        input_tokens=1,
        output_tokens_max=1,
        queue_wait_ms_max=1,
        run_ms_max=1,
    )
    step = StepRequest(
        event_id="e",
        user_id="usr_1",
        epoch=1,
        step=1,
        admitted_at_ms=1,
        queue_deadline_at_ms=1,
        spec=spec,
    )
    return Request(step, place, number if offset is None else offset)


def test_repeats_come_after_half_a_second_and_then_ever_later() -> None:
    claims = Claims(0.5)
    assert claims.propose(request(1), 0.0) is Proposal.CLAIM
    sent = []
    for tenth in range(120):
        if claims.overdue(tenth / 10):
            sent.append(tenth / 10)
    assert sent == [0.5, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_an_old_claim_keeps_no_slot_free() -> None:
    claims = Claims(0.5)
    claims.propose(request(1), 0.0)
    for now_s in (0.5, 1.0):
        claims.overdue(now_s)
    assert claims.holding == 1
    claims.overdue(2.0)
    assert (claims.holding, len(claims)) == (0, 1)
    assert claims.answered(("gen_1", 1)) is not None
    assert (claims.holding, len(claims)) == (0, 0)


def test_one_answer_answers_every_copy() -> None:
    claims = Claims(0.5)
    assert claims.propose(request(1, 4), 0.0) is Proposal.CLAIM
    assert claims.propose(request(1, 9), 0.1) is Proposal.JOINED
    pending = claims.answered(("gen_1", 1))
    assert pending is not None
    assert [copy.offset for copy in pending.requests] == [4, 9]
    assert claims.propose(request(1, 12), 0.2) is Proposal.KNOWN
    assert claims.answered(("gen_1", 1)) is None


def test_what_was_answered_is_remembered_within_a_bound() -> None:
    claims = Claims(0.5, answered_max=2)
    for number in range(3):
        claims.propose(request(number), 0.0)
        claims.answered((f"gen_{number}", 1))
    assert claims.propose(request(0), 1.0) is Proposal.CLAIM
    assert claims.propose(request(2), 1.0) is Proposal.KNOWN


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=60))
def test_an_epoch_is_never_claimed_twice(steps: list[tuple[int, bool]]) -> None:
    claims, claimed = Claims(0.5), set()
    for number, answers in steps:
        if answers:
            claims.answered((f"gen_{number}", 1))
        elif claims.propose(request(number), 0.0) is Proposal.CLAIM:
            assert number not in claimed
            claimed.add(number)
        assert 0 <= claims.holding <= len(claims)


def test_lanes_are_served_in_their_order_each_first_in_first_out() -> None:
    ahead = ReadAhead((Lane.PAID, Lane.FREE), 4)
    ahead.add(Lane.FREE, request(1))
    ahead.add(Lane.PAID, request(2))
    ahead.add(Lane.PAID, request(3))
    order = [ahead.next(), ahead.next(), ahead.next(), ahead.next()]
    assert [r.offset if r else None for r in order] == [2, 3, 1, None]


@pytest.mark.parametrize(
    ("waiting", "full", "low"), [(2, False, True), (3, False, False), (4, True, False)]
)
def test_a_lane_pauses_when_full_and_goes_on_at_half(waiting: int, full: bool, low: bool) -> None:
    ahead = ReadAhead((Lane.PAID,), 4)
    for number in range(waiting):
        ahead.add(Lane.PAID, request(number))
    assert (ahead.full(Lane.PAID), ahead.low(Lane.PAID)) == (full, low)


def test_requests_of_partitions_that_are_gone_are_dropped() -> None:
    ahead = ReadAhead((Lane.PAID,), 4)
    ahead.add(Lane.PAID, request(1, place=("lane", 0)))
    ahead.add(Lane.PAID, request(2, place=("lane", 1)))
    assert ahead.drop(lambda place: place == ("lane", 0)) == 1
    found = ahead.next()
    assert found is not None
    assert found.offset == 2
