"""Framing: whatever the data, every conform reader and every sloppy one sees the same events."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.sse import Parser
from edge.sse import KEEP_ALIVE, Framer, parse_last_event_id, safe

GENERATION = "gen_01KC5ZQ6W4T6GQ2V3N8R7M1XHD"
SPLITTERS = "\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e\x00\x1f\x7f"
text = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(SPLITTERS + "\r\n")))
members = st.dictionaries(text, st.one_of(text, st.integers(), st.none(), st.lists(text)))


def encoded(value: Any) -> bytes:
    """As any writer might: compact, characters raw where JSON allows it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


@given(st.lists(members, max_size=4), st.lists(st.integers(0, 400), max_size=6))
def test_frames_survive_any_split(bodies: list[dict[str, Any]], cuts: list[int]) -> None:
    framer = Framer(GENERATION)
    bodies = [
        {name: value for name, value in body.items() if name not in ("generation_id", "sequence")}
        for body in bodies
    ]
    stream = b"".join(
        framer.entry(1, at + 1, "text.delta", encoded(body)) + KEEP_ALIVE
        for at, body in enumerate(bodies)
    )
    parser = Parser()
    events = []
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    for start, end in itertools.pairwise(places):
        events += parser.feed(stream[start:end])
    assert [event.id for event in events] == [f"1-{at + 1}" for at in range(len(bodies))]
    for at, (event, body) in enumerate(zip(events, bodies, strict=True)):
        assert event.event == "generation.text.delta"
        wanted = {"generation_id": GENERATION, "sequence": at + 1, **body}
        assert json.loads(event.data) == wanted


@given(members)
def test_sloppy_readers_see_the_same_lines(body: dict[str, Any]) -> None:
    frame = Framer(GENERATION).entry(3, 9, "text.delta", encoded(body))
    lines = frame.decode().splitlines()  # splits at eleven characters where SSE has three
    assert lines == frame.decode().split("\n")[:-1]
    assert len(lines) == 4


@given(st.text(st.sampled_from("ab “”…é🙂" + SPLITTERS)))
def test_safe_means_the_same(words: str) -> None:
    raw = encoded({"delta": words})
    made = safe(raw)
    assert json.loads(made) == {"delta": words}
    assert not set(made.decode()) & set(SPLITTERS)


def test_data_with_blanks_and_without_members() -> None:
    framer = Framer(GENERATION)
    head = f'data: {{"generation_id":"{GENERATION}","sequence":2'
    assert head + "}\n\n" in framer.entry(1, 2, "x", b"{}").decode()
    assert head + "}\n\n" in framer.entry(1, 2, "x", b"{ \n }").decode()
    assert head + ',"a": 1 }\n\n' in framer.entry(1, 2, "x", b'{\n"a":\t1\n}').decode()


def test_own_frames_have_no_id() -> None:
    frame = Framer(GENERATION).own(7, "snapshot", b'{"text":""}')
    assert b"id:" not in frame
    parser = Parser("1-7")
    assert [event.id for event in parser.feed(frame)] == ["1-7"]


def test_a_frame_of_the_interface() -> None:
    data = b'{"index":0,"offset":0,"delta":"TCP"}'
    assert Framer("gen_X").entry(1, 1, "text.delta", data) == (
        b"id: 1-1\nevent: generation.text.delta\n"
        b'data: {"generation_id":"gen_X","sequence":1,"index":0,"offset":0,"delta":"TCP"}\n\n'
    )


@pytest.mark.parametrize(
    ("given_id", "expected"),
    [
        (b"1-1", (1, 1)),
        (b"12-3000000", (12, 3_000_000)),
        (b" 1-2 ", (1, 2)),
        (b"0-0", None),
        (b"0-1", None),
        (b"1-0", None),
        (b"abc", None),
        (b"", None),
        (b"1-", None),
        (b"-1", None),
        (b"1-1-1", None),
        (b"1-" + b"9" * 20, None),
        (b"9" * 10_240, None),
        ("１-１".encode(), None),
    ],
)
def test_resume_ids(given_id: bytes, expected: tuple[int, int] | None) -> None:
    assert parse_last_event_id([given_id]) == expected


def test_a_resume_id_given_twice_is_none() -> None:
    assert parse_last_event_id([b"1-1", b"1-1"]) is None
    assert parse_last_event_id([]) is None
