"""Stories of admission: one line per event and its expected answer."""

from typing import Any

import pytest
from msgspec.structs import replace

from processors.admission.state import IDENTITIES_MAX, REFUSALS_MAX, REPLACED_MAX, Account
from processors.machine import STATE_BYTES_MAX, Event, Outputs
from processors.stored import encode_state
from schemas.generated.types import (
    Abandon,
    Api,
    Archived,
    Code,
    Credit,
    EdgeReply,
    EmergencyAdmitted,
    Phase,
    Reassign,
    Refused,
    Release,
    ReleaseReason,
    RunState,
    Start,
    Terminal,
    Tier,
)
from tests.processors.accounts import ACCOUNTS, DAY_S, PLANS, WINDOW_S
from tests.processors.events import (
    REPLIES,
    consume,
    due,
    query,
    release,
    settle,
    sixteen,
    spec,
    submit,
)
from tests.processors.story import T0_MS, Line, play
from topics.errors import NotSupported

STORIES: dict[str, list[Line]] = {
    "a request, its life and its repeats": [
        (0, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        # The edge waited in vain and sends the same bytes again: the same outputs again.
        (0.25, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (0.3, submit("b", "k"), "b repeated g-a same running; +repeated 0+1/3 s1"),
        (0.3, submit("c", "k", content="x"), "c repeated g-a other running; +conflict 0+1/3 s1"),
        (0.5, consume("a"), "+consumed 1+0/3 s1"),
        (0.6, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (2, settle("a"), "+settled 1+0/3 s0"),
        (3, submit("b", "k"), "b repeated g-a same completed; +repeated 1+0/3 s0"),
        (3, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (4, submit("d", "k2"), "run_1 start g-d; +admitted 1+1/3 s1"),
    ],
    "slots come before the quota, and a refusal binds its request id only": [
        (0, submit("a", "k1"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (0, submit("b", "k2"), "run_1 start g-b; +admitted 0+2/3 s2"),
        (1, submit("c", "k3"), "c refused concurrency_limited retryable; +refused 0+2/3 s2"),
        (1, release("a"), "+released 0+1/3 s1"),
        (2, submit("c", "k3"), "c refused concurrency_limited retryable; +refused 0+2/3 s2"),
        (2, submit("d", "k3"), "run_1 start g-d; +admitted 0+2/3 s2"),
        (3, submit("c", "k3"), "c refused concurrency_limited retryable; +refused 0+2/3 s2"),
    ],
    "a spent quota binds its key past the reset": [
        (0, submit("a", "k1"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (0, consume("a"), "+consumed 1+0/3 s1"),
        (0, settle("a"), "+settled 1+0/3 s0"),
        (1, submit("b", "k2"), "run_1 start g-b; +admitted 1+1/3 s1"),
        (1, settle("b"), "+consumed 2+0/3 s1; +settled 2+0/3 s0"),
        (2, submit("c", "k3"), "run_1 start g-c; +admitted 2+1/3 s1"),
        (3, submit("d", "k4"), "d refused quota_exhausted; +refused 2+1/3 s1"),
        (4, settle("c"), "+consumed 3+0/3 s1; +settled 3+0/3 s0"),
        (5, submit("e", "k4"), "e refused quota_exhausted; +refused 2+1/3 s1"),
        (
            5,
            submit("f", "k4", content="x"),
            "f refused idempotency_conflict; +conflict 3+0/3 s0",
        ),
        (WINDOW_S, submit("d", "k4"), "d refused quota_exhausted; +refused 2+1/3 s1"),
        (WINDOW_S, submit("g", "k4"), "g refused quota_exhausted; +refused 2+1/3 s1"),
        (WINDOW_S, submit("h", "k5"), "run_1 start g-h; +admitted 0+1/3 s1"),
    ],
    "a conversation's key is decided afresh after the reset": [
        (0, submit("a", "k1"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (0, settle("a"), "+consumed 1+0/3 s1; +settled 1+0/3 s0"),
        (0, submit("b", "k2"), "run_1 start g-b; +admitted 1+1/3 s1"),
        (0, settle("b"), "+consumed 2+0/3 s1; +settled 2+0/3 s0"),
        (0, submit("c", "k3"), "run_1 start g-c; +admitted 2+1/3 s1"),
        (
            1,
            submit("d", "k4", api=Api.CONVERSATIONS),
            "d refused quota_exhausted; +refused 2+1/3 s1",
        ),
        (
            WINDOW_S,
            submit("e", "k4", api=Api.CONVERSATIONS),
            "run_1 start g-e; +admitted 0+1/3 s2",
        ),
    ],
    "a key whose generation ended before its grant is decided afresh": [
        (0, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (1, release("a"), "+released 0+0/3 s0"),
        (2, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (2, submit("b", "k", content="x"), "b repeated g-a other failed; +conflict 0+0/3 s0"),
        (3, submit("c", "k"), "run_1 start g-c; +admitted 0+1/3 s1"),
        # A late repeat of the first request: its old answer, and no second life.
        (4, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (5, release("a"), ""),
        (5, release("c"), "+released 0+0/3 s0"),
        (6, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (6, query(), "q limits messages 0+0/3, slots 0+0/2"),
        (7, submit("d", "k"), "run_1 start g-d; +admitted 0+1/3 s1"),
        (8, settle("d", Terminal.FAILED), "+consumed 1+0/3 s1; +settled 1+0/3 s0"),
        (9, submit("e", "k"), "e repeated g-d same failed; +repeated 1+0/3 s0"),
    ],
    "not so where its user cancelled it": [
        (0, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (1, release("a", ReleaseReason.CANCELLED), "+released 0+0/3 s0"),
        (2, submit("b", "k"), "b repeated g-a same cancelled; +repeated 0+0/3 s0"),
        (3, submit("c", "k2"), "run_1 start g-c; +admitted 0+1/3 s1"),
        (4, release("c", ReleaseReason.STOPPED), "+released 0+0/3 s0"),
        (5, submit("d", "k2"), "d repeated g-c same stopped; +repeated 0+0/3 s0"),
    ],
    "a hold stays in the window it was taken from": [
        (WINDOW_S - 1, submit("a", "k1"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (WINDOW_S, submit("b", "k2"), "run_1 start g-b; +admitted 0+1/3 s2"),
        (WINDOW_S + 1, consume("a"), "+consumed 1+0/3 s2"),
        (WINDOW_S + 1, query(), "q limits messages 0+1/3, slots 2+0/2"),
        (WINDOW_S + 2, settle("a"), "+settled 1+0/3 s1"),
        (WINDOW_S + 2, release("b"), "+released 0+0/3 s0"),
        (2 * WINDOW_S, query(), "q limits messages 0+0/3, slots 0+0/2"),
    ],
    "limits of somebody new, and by tier": [
        (0, query(), "q limits messages 0+0/3, slots 0+0/2"),
        (0, query(Tier.PAID), "q limits messages 0+0/6, slots 0+0/3"),
        (0, query(Tier.OPERATOR), "q limits messages 0+0/6, slots 0+0/3"),
        (0, query(Tier.UNKNOWN), "q limits messages 0+0/3, slots 0+0/2"),
    ],
    "a generation already active under another key is not taken over": [
        (0, submit("a", "k1"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (0, submit("a", "k2"), "a refused idempotency_conflict; +conflict 0+1/3 s1"),
    ],
    "identities leave a day after their end, active ones never": [
        (0, submit("a", "k1"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (0, submit("b", "k2"), "run_1 start g-b; +admitted 0+2/3 s2"),
        (10, settle("a"), "+consumed 1+1/3 s2; +settled 1+1/3 s1"),
        (DAY_S + 9, due(), ""),
        (DAY_S + 9, submit("c", "k1"), "c repeated g-a same completed; +repeated 0+0/3 s1"),
        (DAY_S + 10, due(), ""),
        (DAY_S + 11, submit("c", "k1"), "run_1 start g-c; +admitted 0+1/3 s2"),
        (9 * DAY_S, due(), ""),
        (9 * DAY_S, submit("d", "k2"), "d repeated g-b same running; +repeated 0+0/3 s2"),
    ],
}


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    play(ACCOUNTS, "usr_1", STORIES[story])


def test_an_account_is_forgotten_when_nothing_is_left() -> None:
    lines: list[Line] = [
        (0, submit("a", "k"), "run_1 start g-a; +admitted 0+1/3 s1"),
        (1, settle("a"), "+consumed 1+0/3 s1; +settled 1+0/3 s0"),
    ]
    state = play(ACCOUNTS, "usr_1", lines)
    assert state is not None
    assert ACCOUNTS.next_deadline(state) == T0_MS + (DAY_S + 1) * 1_000
    assert play(ACCOUNTS, "usr_1", [(DAY_S + 1, due(), "")], state) is None


def test_void_events_make_no_account() -> None:
    lines: list[Line] = [(0, consume("a"), ""), (0, release("a"), ""), (0, settle("a"), "")]
    assert play(ACCOUNTS, "usr_1", [*lines, (0, due(), ""), (1, query(), _NOBODY)]) is None


_NOBODY = "q limits messages 0+0/3, slots 0+0/2"


def test_a_refusal_says_what_a_program_can_act_on() -> None:
    state = None
    refusals = []
    for number, at_s in enumerate((0, 0, 0.5), start=1):
        state, outputs = ACCOUNTS.fold(
            state, _event(f"e{number}", submit(str(number), str(number)), at_s)
        )
        refusals = [output.value for output in outputs if isinstance(output.value, EdgeReply)]
    assert [(_refused(reply).retry_after_ms, _refused(reply).limit) for reply in refusals]
    slot = _refused(refusals[0])
    assert slot.retry_after_ms == 1_000
    assert slot.limit is not None
    assert (slot.limit.name, slot.limit.remaining, slot.limit.reset_at_ms) == ("slots", 0, None)
    for done in ("1", "2"):
        state, _ = ACCOUNTS.fold(state, _event("s", settle(done), 1))
    state, _ = ACCOUNTS.fold(state, _event("e4", submit("4", "4"), 2))
    state, outputs = ACCOUNTS.fold(state, _event("e5", submit("5", "5"), 100))
    quota = _refused(outputs[0].value)
    assert quota.limit is not None
    assert quota.limit.reset_at_ms == T0_MS + WINDOW_S * 1_000
    assert (quota.limit.window_s, quota.limit.remaining) == (WINDOW_S, 0)
    assert quota.retry_after_ms == (WINDOW_S - 100) * 1_000


def test_a_start_tells_the_limits_after_the_admission() -> None:
    _, outputs = ACCOUNTS.fold(None, _event("e", submit("a", "k"), 1))
    start = outputs[0].value.body
    assert isinstance(start, Start)
    assert start.submitted_at_ms == T0_MS + 1_000
    messages, slots = start.limits
    assert (messages.remaining, messages.held, slots.remaining) == (2, 1, 1)


def test_same_request_gets_equal_outputs() -> None:
    state, first = ACCOUNTS.fold(None, _event("e", submit("a", "k"), 1))
    assert ACCOUNTS.fold(state, _event("e", submit("a", "k"), 2)) == (state, first)
    state, _ = ACCOUNTS.fold(state, _event("f", submit("b", "k2"), 2))
    state, refused = ACCOUNTS.fold(state, _event("g", submit("c", "k3"), 3))
    assert ACCOUNTS.fold(state, _event("g", submit("c", "k3"), 4)) == (state, refused)


def test_refusals_are_bounded_oldest_out() -> None:
    state = play(
        ACCOUNTS,
        "usr_1",
        [
            (0, submit("a", "k1"), "run_1 start g-a; +admitted 0+1/3 s1"),
            (0, submit("b", "k2"), "run_1 start g-b; +admitted 0+2/3 s2"),
        ],
    )
    for number in range(REFUSALS_MAX + 1):
        state, _ = ACCOUNTS.fold(state, _event("e", submit(f"r{number}", f"x{number}"), 1))
    assert state is not None
    assert len(state.refusals) == REFUSALS_MAX
    state, _ = ACCOUNTS.fold(state, _event("e", release("a"), 2))
    _, fresh = ACCOUNTS.fold(state, _event("e", submit("r0", "x0"), 3))
    _, bound = ACCOUNTS.fold(state, _event("e", submit("r1", "x1"), 3))
    assert fresh[1].value.kind == "admitted"
    assert bound[1].value.kind == "refused"


def test_a_full_account_fits_under_the_cap_and_still_ends_what_it_has() -> None:
    """At the bound of identities a request is refused, retryable; nothing that ends is ever lost."""
    state: Account | None = None

    def take(body: Any, number: int) -> Outputs:
        nonlocal state
        state, outputs = ACCOUNTS.fold(state, _event("e", body, number * WINDOW_S))
        return outputs

    for number in range(IDENTITIES_MAX):
        # Ids are as long as the real ones, gen_<ULID>.
        for again in range(2 if number < REPLACED_MAX else 1):
            if again:
                take(Release(generation_id=f"gen_{number:026d}"), number)
            generation = f"gen_{number + again * IDENTITIES_MAX:026d}"
            body = submit(f"{number}-{again}", str(number))
            take(replace(body, spec=spec(generation, tier=Tier.PAID)), number)
        if number < IDENTITIES_MAX - 3:
            take(replace(settle("x"), generation_id=generation), number)
    for number in range(REFUSALS_MAX):
        outputs = take(submit(f"x{number}", f"x{number}"), IDENTITIES_MAX)
        refused = _refused(outputs[0].value)
        assert (refused.code, refused.retryable) == ("quota_service_unavailable", True)
    assert state is not None
    sizes = (len(state.past), len(state.active), len(state.replaced), len(state.refusals))
    assert sizes == (IDENTITIES_MAX - 3, 3, REPLACED_MAX, REFUSALS_MAX)
    for generation in list(state.active):
        assert len(take(replace(settle("x"), generation_id=generation), IDENTITIES_MAX)) == 2
    assert state is not None
    assert not state.active
    assert len(encode_state(state)) < STATE_BYTES_MAX


def test_over_the_cap_a_request_is_refused_and_nothing_else_answered() -> None:
    (told,) = ACCOUNTS.over_cap(_event("e", submit("a", "k"), 0))
    assert _refused(told.value) == Refused(code=Code.QUOTA_SERVICE_UNAVAILABLE, retryable=True)
    assert ACCOUNTS.over_cap(_event("e", settle("a"), 0)) == ()


@pytest.mark.parametrize(
    "body",
    [
        Abandon(request_id="r"),
        Reassign(generation_id="g", model="m", model_version="v", pool="p"),
        Archived(identity=sixteen("k")),
        EmergencyAdmitted(
            request_id="r",
            user_id="u",
            identity=sixteen("k"),
            fingerprint=sixteen("f"),
            reply_partition=REPLIES,
            plan_version="p",
            spec=spec("g"),
        ),
        Credit(credit_id="c", messages=1, reason="r"),
        RunState(generation_id="g", known=True, phase=Phase.QUEUED, granted=False),
        query(generation="g"),
    ],
    ids=lambda body: type(body).__name__,
)
def test_what_is_not_built_is_said_so(body: Any) -> None:
    with pytest.raises(NotSupported):
        ACCOUNTS.fold(None, _event("e", body, 0))


def test_facts_name_the_plan() -> None:
    _, outputs = ACCOUNTS.fold(None, _event("e", submit("a", "k"), 1))
    assert outputs[1].value.plan_version == PLANS.version


def _event(event_id: str, body: Any, at_s: float) -> Event:
    return Event(event_id=event_id, key="usr_1", append_ms=T0_MS + round(at_s * 1_000), body=body)


def _refused(reply: EdgeReply) -> Refused:
    assert isinstance(reply.body, Refused)
    return reply.body
