"""How an end looks, over everything that may have been shown and stored before."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.closer.closing import Plan, closed, plan, terminal_data
from connectors.redis.layout import parse_id
from connectors.redis.shown import Shown
from connectors.store.rows import TEXT_BYTES_MAX, Result, ResultStatus
from schemas.generated.types import Closed, Code, Ended, FinishReason, Hold, Terminal, Usage
from topics.errors import NotSupported

GEN = "gen_1"
NOTHING = Shown("", 0, 0, 0, exists=False)


def ended(**changes: Any) -> Ended:
    event = Ended(
        terminal=Terminal.COMPLETED,
        finish_reason=FinishReason.STOP,
        usage=Usage(input_tokens=12, cached_input_tokens=3, output_tokens=40),
        hold=Hold.CONSUMED,
        closing_epoch=2,
        text_epoch=1,
        keep_row=True,
        user_id="usr_1",
        runs_key="run_1",
        model="flagship",
        model_version="v@1",
        admitted_at_ms=1_000,
        ended_at_ms=9_000,
    )
    return msgspec.structs.replace(event, **changes)


def workers(text: str, epoch: int = 1) -> Result:
    return Result(
        generation_id=GEN,
        user_id="usr_1",
        status=ResultStatus.PERSISTING,
        model="flagship",
        epoch=epoch,
        text=text,
        code_points=len(text),
        finish_reason=FinishReason.STOP,
        error_code=None,
        partial=True,
        input_tokens=1,
        cached_input_tokens=1,
        output_tokens=1,
        hold=Hold.CONSUMED,
        terminal_id=None,
        admitted_at_ms=1_000,
        ended_at_ms=None,
    )


def shown(text: str, sequence: int, *, epoch: int = 1, whole: bool = True) -> Shown:
    return Shown(text, len(text), epoch, sequence, exists=True, whole=whole)


def planned(event: Ended, seen: Shown | None, row: Result | None) -> Plan:
    made = plan(GEN, 7, event, seen, row)
    assert made is not None
    return made


def test_a_completed_answer_keeps_the_worker_s_row_and_appends_only_the_terminal() -> None:
    made = planned(ended(), shown("héllo", 3), workers("héllo"))
    assert made.write
    assert not made.row_missing
    assert made.row == Result(
        generation_id=GEN,
        user_id="usr_1",
        status=ResultStatus.COMPLETED,
        model="flagship",
        epoch=2,
        text="héllo",
        code_points=5,
        finish_reason=FinishReason.STOP,
        error_code=None,
        partial=True,
        input_tokens=12,
        cached_input_tokens=3,
        output_tokens=40,
        hold=Hold.CONSUMED,
        terminal_id="2-4",
        admitted_at_ms=1_000,
        ended_at_ms=9_000,
    )
    assert made.closing is not None
    assert (made.closing.last, made.closing.terminal_sequence) == ((1, 3), 4)
    assert (made.closing.snapshot_sequence, made.closing.event) == (None, "completed")
    assert made.closing.number == 7
    assert json.loads(made.closing.data) == {
        "usage": {"input_tokens": 12, "cached_input_tokens": 3, "output_tokens": 40},
        "finish_reason": "stop",
    }
    assert closed(made.row, 2) == Closed(generation_id=GEN, epoch=2, partial=True, code_points=5)


def test_what_was_not_shown_comes_as_a_snapshot_before_the_terminal() -> None:
    for seen, sequence in ((shown("hel", 3), 4), (shown("hello", 3, whole=False), 4)):
        made = planned(ended(), seen, workers("hello"))
        assert made.closing is not None
        assert made.closing.snapshot_sequence == sequence
        assert json.loads(made.closing.snapshot_data) == {"text": "hello"}
        assert made.closing.terminal_sequence == sequence + 1
        assert made.row.terminal_id == f"2-{sequence + 1}"


def test_a_stream_that_is_gone_begins_at_a_number_nobody_used() -> None:
    made = planned(ended(), NOTHING, workers("hello"))
    assert made.closing is not None
    assert made.closing.last is None
    assert made.closing.snapshot_sequence == 2_000_000
    assert made.closing.terminal_sequence == 2_000_001


def test_a_stream_that_is_gone_takes_back_what_readers_may_have() -> None:
    """The text was only in the stream: nobody has it any more, so nobody may go on showing it."""
    event = ended(terminal=Terminal.FAILED, finish_reason=FinishReason.BACKEND_DEAD, keep_row=False)
    made = planned(event, NOTHING, None)
    assert made.row.text == ""
    assert made.closing is not None
    assert made.closing.snapshot_sequence == made.closing.terminal_sequence - 1
    assert json.loads(made.closing.snapshot_data) == {"text": ""}


def test_never_granted_is_numbered_from_one_without_text() -> None:
    event = ended(
        terminal=Terminal.CANCELLED,
        finish_reason=FinishReason.UNKNOWN,
        closing_epoch=2,
        text_epoch=0,
        keep_row=False,
        hold=Hold.RELEASED,
    )
    made = planned(event, NOTHING, None)
    assert made.closing is not None
    assert (made.closing.snapshot_sequence, made.closing.terminal_sequence) == (None, 1)
    assert made.row.status is ResultStatus.CANCELLED
    assert (made.row.partial, made.row.finish_reason) == (False, None)
    assert made.row.hold is Hold.RELEASED
    assert set(json.loads(made.closing.data)) == {"usage"}


def test_a_row_without_its_finish_is_no_end_and_what_was_shown_stays() -> None:
    event = ended(
        terminal=Terminal.FAILED,
        code=Code.MODEL_BACKEND_ERROR,
        finish_reason=FinishReason.BACKEND_DEAD,
        keep_row=False,
    )
    made = planned(event, shown("hel", 2), workers("hello"))
    assert made.row.text == "hel"
    assert made.row.error_code is Code.MODEL_BACKEND_ERROR
    assert made.closing is not None
    assert made.closing.event == "error"
    assert json.loads(made.closing.data) == {
        "code": "model_backend_error",
        "action": "manual_regenerate",
        "partial": True,
    }


def test_where_what_was_shown_cannot_be_read_the_row_is_text() -> None:
    event = ended(terminal=Terminal.FAILED, code=Code.MODEL_BACKEND_ERROR, keep_row=False)
    assert planned(event, NOTHING, workers("hello")).row.text == "hello"
    assert planned(event, shown("lo", 9, whole=False), workers("hello")).row.text == "hello"
    assert planned(event, NOTHING, workers("old", epoch=3)).row.text == ""


def test_a_row_that_should_be_there_and_is_not_is_told() -> None:
    for row in (None, workers("other", epoch=5)):
        made = planned(ended(text_epoch=1), shown("hel", 2), row)
        assert (made.row.text, made.row_missing) == ("hel", True)


@pytest.mark.parametrize(
    ("code", "action"),
    [
        (Code.MODEL_BACKEND_ERROR, "manual_regenerate"),
        (Code.GENERATION_TIMEOUT, "manual_regenerate"),
        (Code.CAPACITY_EXHAUSTED, "wait"),
        (Code.INVALID_REQUEST, "none"),
        (None, "none"),
    ],
)
def test_a_failed_end_says_what_can_be_done(code: Code | None, action: str) -> None:
    event = ended(terminal=Terminal.FAILED, code=code, keep_row=False, text_epoch=0)
    row = planned(event, NOTHING, None).row
    told = json.loads(terminal_data(row))
    assert told == {"code": (code or Code.INTERNAL).value, "action": action, "partial": False}


@pytest.mark.parametrize("terminal", [Terminal.MODERATED, Terminal.UNKNOWN])
def test_an_end_of_another_feature_is_not_half_done(terminal: Terminal) -> None:
    with pytest.raises(NotSupported):
        plan(GEN, 7, ended(terminal=terminal), NOTHING, None)


def test_text_that_no_row_can_hold_is_cut_and_shown_cut() -> None:
    text = "x" * (TEXT_BYTES_MAX + 5)
    made = planned(ended(keep_row=False, terminal=Terminal.STOPPED), shown(text, 9), None)
    assert made.row.code_points == TEXT_BYTES_MAX
    assert made.closing is not None
    assert json.loads(made.closing.snapshot_data)["text"] == made.row.text


def test_without_redis_an_accepted_row_is_kept_and_the_rest_waits() -> None:
    made = planned(ended(), None, workers("hello"))
    assert made.write
    assert made.closing is None
    assert made.row.terminal_id == "2-2000001"
    assert plan(GEN, 7, ended(keep_row=False), None, workers("hello")) is None
    assert plan(GEN, 7, ended(), None, None) is None


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
SEEN = st.one_of(
    st.none(),
    st.just(NOTHING),
    st.builds(shown, TEXTS, st.integers(1, 50), whole=st.booleans()),
)
ROWS = st.one_of(st.none(), st.builds(workers, TEXTS, st.integers(1, 3)))
ENDS = st.builds(
    ended,
    terminal=st.sampled_from([*Terminal][1:5]),
    keep_row=st.booleans(),
    text_epoch=st.integers(0, 3),
    closing_epoch=st.just(4),
    code=st.one_of(st.none(), st.sampled_from(Code)),
)


@given(ENDS, SEEN, ROWS, st.lists(SEEN, max_size=3))
def test_once_a_row_is_written_every_repeat_agrees_with_it(
    event: Ended, seen: Shown | None, row: Result | None, later: list[Shown | None]
) -> None:
    first = plan(GEN, 7, event, seen, row)
    if first is None:
        assert seen is None
        return
    assert first.row.epoch == event.closing_epoch
    assert first.row.code_points == len(first.row.text)
    for seen_later in later:
        again = planned(event, seen_later, first.row)
        assert (again.row, again.write) == (first.row, False)
        assert (again.closing is None) == (seen_later is None)
        if again.closing is not None and first.row.terminal_id is not None:
            terminal = (again.closing.epoch, again.closing.terminal_sequence)
            assert terminal == parse_id(first.row.terminal_id)
            assert terminal > (again.closing.last or (0, 0))


@given(ENDS, SEEN, ROWS)
def test_a_reader_ends_with_exactly_the_stored_text(
    event: Ended, seen: Shown | None, row: Result | None
) -> None:
    made = plan(GEN, 7, event, seen, row)
    if made is None or made.closing is None or seen is None:
        return
    if made.closing.snapshot_sequence is None:
        rendered = seen.text
        assert seen.whole
    else:
        rendered = json.loads(made.closing.snapshot_data)["text"]
        assert 0 <= made.closing.snapshot_sequence == made.closing.terminal_sequence - 1
    assert rendered == made.row.text
    if seen.exists:
        first = made.closing.snapshot_sequence or made.closing.terminal_sequence
        assert first == seen.last_sequence + 1
