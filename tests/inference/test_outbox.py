"""Sequence, offsets and pacing of one epoch, whatever the stream answers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.redis.writer import AppendCode, Appended
from inference.outbox import Append, Outbox, Pace, Verdict
from schemas.generated.types import StopReason

PACE = Pace(flush_s=0.25, idle_s=1.0)
OK = Appended(AppendCode.OK)


def data(append: Append) -> dict[str, object]:
    assert append.data is not None
    found: dict[str, object] = json.loads(append.data)
    return found


def test_first_text_at_once_then_every_flush() -> None:
    box = Outbox(PACE, 10.0)
    assert box.due_s() == 11.0, "without text only a look, a second later"
    assert box.add("T")
    assert box.due_s() <= 10.0
    first = box.take()
    assert (first.sequence, data(first)) == (1, {"index": 0, "offset": 0, "delta": "T"})
    assert not box.add("C"), "while one is on its way nobody needs to be woken"
    assert box.settle(first, OK, 10.0) is Verdict.GO_ON
    assert box.due_s() == 10.25
    second = box.take()
    assert (second.sequence, data(second)) == (2, {"index": 0, "offset": 1, "delta": "C"})
    box.settle(second, OK, 10.25)
    assert not box.pending
    assert box.due_s() == 11.25


def test_a_look_takes_no_number() -> None:
    box = Outbox(PACE, 0.0)
    look = box.take()
    assert (look.sequence, look.data) == (0, None)
    assert box.settle(look, Appended(AppendCode.STOP), 1.0) is Verdict.STOP
    box.add("x")
    assert box.take().sequence == 1


def test_offsets_count_code_points() -> None:
    box = Outbox(PACE, 0.0)
    box.add("那👨‍👩‍👧e\u0301")
    box.settle(box.take(), OK, 0.0)
    box.add("!")
    assert data(box.take())["offset"] == 8
    assert box.code_points == 9


def test_a_stream_not_open_yet_is_tried_soon_and_asked_about_after_two_seconds() -> None:
    box, now_s, pauses = Outbox(PACE, 0.0), 0.0, []
    box.add("a")
    probes = []
    while now_s < 4.0:
        append = box.take()
        assert append.sequence == 1
        box.settle(append, Appended(AppendCode.LOST), now_s)
        if box.probe_due(now_s):
            probes.append(now_s)
        pauses.append(round(box.due_s() - now_s, 3))
        now_s = box.due_s()
    assert pauses[:6] == [0.02, 0.04, 0.08, 0.16, 0.25, 0.25]
    assert [round(at) for at in probes] == [2, 3]
    box.settle(box.take(), OK, now_s)
    assert not box.probe_due(now_s + 5.0)
    assert not box.pending, "nothing was shown before, so no snapshot is needed"


def test_a_lost_stream_in_the_middle_is_asked_about_at_once_and_gets_a_snapshot() -> None:
    box = Outbox(PACE, 0.0)
    box.add("one ")
    box.settle(box.take(), OK, 0.0)
    box.add("two")
    box.settle(box.take(), Appended(AppendCode.LOST), 0.25)
    assert box.probe_due(0.25)
    assert not box.probe_due(1.0)
    assert box.probe_due(1.25)
    append = box.take()
    assert (append.sequence, append.event) == (2, "snapshot")
    assert data(append) == {"text": "one two"}
    box.settle(append, Appended(AppendCode.OK, missing=True), 1.3)
    assert not box.pending


def test_a_missing_stream_gets_a_snapshot_at_once() -> None:
    box = Outbox(PACE, 0.0)
    box.add("one ")
    box.settle(box.take(), OK, 0.0)
    box.add("two")
    box.settle(box.take(), Appended(AppendCode.OK, missing=True), 0.25)
    assert box.pending
    assert box.due_s() == 0.25
    append = box.take()
    assert (append.sequence, append.event, data(append)) == (3, "snapshot", {"text": "one two"})


def test_an_unknown_append_is_repeated_byte_by_byte() -> None:
    box = Outbox(PACE, 0.0)
    box.add("a")
    first = box.take()
    box.add("b")
    box.settle(first, Appended(AppendCode.AWAY), 0.0)
    assert box.due_s() == 0.25
    assert box.take() == first
    box.settle(first, OK, 0.25)
    assert data(box.take()) == {"index": 0, "offset": 1, "delta": "b"}


def test_an_unknown_append_of_a_lost_stream_gives_up_its_number() -> None:
    box = Outbox(PACE, 0.0)
    box.add("a")
    first = box.take()
    box.settle(first, Appended(AppendCode.AWAY), 0.0)
    box.settle(first, Appended(AppendCode.LOST), 0.25)
    append = box.take()
    assert (append.sequence, append.event) == (2, "snapshot")


def test_a_full_redis_keeps_the_text_and_still_tells_a_stop() -> None:
    box = Outbox(PACE, 0.0)
    box.add("a")
    first = box.take()
    assert box.settle(first, Appended(AppendCode.FULL), 0.0) is Verdict.GO_ON
    box.add("b")
    again = box.take()
    assert (again.sequence, data(again)["delta"]) == (1, "ab")
    full = Appended(AppendCode.FULL, stop=StopReason.USER)
    assert box.settle(again, full, 0.25) is Verdict.STOP
    assert box.pending


def test_a_taken_number_is_skipped_with_the_whole_text() -> None:
    box = Outbox(PACE, 0.0)
    box.add("a")
    box.skip(box.take(), 0.0)
    append = box.take()
    assert (append.sequence, append.event, data(append)) == (2, "snapshot", {"text": "a"})


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\n"])
def test_line_ends_are_escaped(character: str) -> None:
    box = Outbox(PACE, 0.0)
    box.add(f"a{character}b")
    raw = box.take().data
    assert raw is not None
    assert len(raw.decode().splitlines()) == 1
    assert json.loads(raw)["delta"] == f"a{character}b"


CODES = st.sampled_from([AppendCode.OK, AppendCode.LOST, AppendCode.FULL, AppendCode.AWAY])


@given(st.lists(st.tuples(st.text(max_size=4), CODES, st.booleans(), st.booleans()), max_size=40))
def test_a_reader_always_ends_with_the_text(
    steps: list[tuple[str, AppendCode, bool, bool]],
) -> None:
    """The stream applies what it may: whatever it answers, a reader renders what was made."""
    box, now_s, made = Outbox(PACE, 0.0), 0.0, ""
    stream: dict[int, Append] = {}
    shown = ""

    def put(code: AppendCode, applied: bool, missing: bool) -> None:
        nonlocal shown
        append = box.take()
        if append.data is None:
            code, applied, missing = AppendCode.OK, False, False
        if code is AppendCode.LOST:
            stream.clear()
        if append.data is not None and (
            code is AppendCode.OK or (code is AppendCode.AWAY and applied)
        ):
            repeated = append.sequence in stream
            known = stream.setdefault(append.sequence, append)
            assert known == append, "one number never carries two entries"
            value = data(append)
            if append.event == "snapshot":
                shown = str(value["text"])
            else:
                assert repeated or value["offset"] == len(shown)
                shown = shown[: int(str(value["offset"]))] + str(value["delta"])
        box.settle(append, Appended(code, missing=missing and code is AppendCode.OK), now_s)

    for text, code, applied, missing in steps:
        if text:
            box.add(text)
            made += text
        put(code, applied, missing)
        now_s += 0.25
    for _ in range(4):
        put(AppendCode.OK, applied=True, missing=False)
    assert shown == made == box.text()
    assert not box.pending


def test_text_ends_at_its_bound_of_bytes_between_two_characters() -> None:
    box = Outbox(PACE, 0.0, bytes_max=8)
    assert box.add("那个")  # 6 bytes
    assert not box.add("e\u0301個")  # 1 + 2 + 3
    assert not box.add("x"), "nothing follows what was dropped, though it would fit"
    assert (box.text(), box.code_points, box.full) == ("那个e", 3, True)
