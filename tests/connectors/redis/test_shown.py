"""The fold of entries to text, in code points."""

import json

from hypothesis import given
from hypothesis import strategies as st

from connectors.redis.layout import (
    Entry,
    channel,
    format_id,
    generation_of,
    parse_id,
    parse_message,
)
from connectors.redis.shown import shown_text
from tests.support.streams import delta


def entry(event: str, data: bytes | dict[str, object], sequence: int = 1) -> Entry:
    return Entry(1, sequence, event, data if isinstance(data, bytes) else json.dumps(data).encode())


@given(st.lists(st.text(max_size=5), max_size=8))
def test_deltas_make_the_text_they_were_cut_from(pieces: list[str]) -> None:
    pieces = [piece.encode("utf-8", "ignore").decode() for piece in pieces]
    entries, offset = [], 0
    for piece in pieces:
        entries.append(entry("text.delta", delta(offset, piece)))
        offset += len(piece)
    assert shown_text(entries) == ("".join(pieces), True)


def test_events_without_text_change_nothing() -> None:
    assert shown_text([entry("notice", {"code": "x"}), entry("completed", {})]) == ("", True)


def test_snapshot_reset_and_retract() -> None:
    first = entry("text.delta", delta(0, "a🎉cd"))
    assert shown_text([first, entry("reset", {"offset": 2})]) == ("a🎉", True)
    again = [first, entry("reset", {"offset": 2}), entry("text.delta", delta(2, "z"))]
    assert shown_text(again) == ("a🎉z", True)
    assert shown_text([first, entry("snapshot", {"text": "new"})]) == ("new", True)
    assert shown_text([first, entry("retract", {"category": "x"})]) == ("", True)


def test_a_delta_before_the_end_replaces_what_follows() -> None:
    entries = [entry("text.delta", delta(0, "abcd")), entry("text.delta", delta(2, "XY"))]
    assert shown_text(entries) == ("abXY", True)


def test_text_behind_a_hole_is_not_taken_for_its_beginning() -> None:
    first, lost = entry("text.delta", delta(0, "ab")), entry("text.delta", delta(4, "ef"))
    assert shown_text([first, lost]) == ("ab", False)
    assert shown_text([first, lost, entry("text.delta", delta(6, "gh"))]) == ("ab", False)
    assert shown_text([lost]) == ("", False)
    assert shown_text([lost, entry("snapshot", {"text": "abcdef"})]) == ("abcdef", True)


def test_a_hole_is_told_and_healed_by_a_snapshot() -> None:
    hole = [entry("text.delta", delta(5, "x"))]
    assert shown_text(hole)[1] is False
    assert shown_text([*hole, entry("snapshot", {"text": "whole"})]) == ("whole", True)
    assert shown_text([entry("text.delta", b"not json")])[1] is False


def test_names_round_trip() -> None:
    assert generation_of(channel("gen_01J")) == "gen_01J"
    assert parse_id(format_id(3, 41)) == (3, 41) == parse_id(b"3-41")
    assert parse_message(b'2-7 text.delta {"delta":"a b"}') == Entry(
        2, 7, "text.delta", b'{"delta":"a b"}'
    )
