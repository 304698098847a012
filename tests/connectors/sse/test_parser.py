"""The event stream parser against the WHATWG text: its examples, and laws over any split."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.sse import Event, Parser, TooLarge


def parse(*chunks: bytes) -> list[Event]:
    parser = Parser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Event("message", "YHOO\n+2\n10", "")]),
        (
            b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event",
            [Event("message", "first event", "1"), Event("message", "second event", "")],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [Event("message", "", ""), Event("message", "\n", "")]),
        (b"data:test\n\ndata: test\n\n", [Event("message", "test", "")] * 2),
        (
            b"event: add\ndata: 1\n\nevent: add\n\ndata: 2\n\n",
            [Event("add", "1", ""), Event("message", "2", "")],
        ),
        (b"id: 7\n\ndata: x\n\n", [Event("message", "x", "7")]),
        (b"id: 7\0\ndata: x\n\n", [Event("message", "x", "")]),
        (b"data:  two spaces\n\n", [Event("message", " two spaces", "")]),
        (b"data: a:b\n\n", [Event("message", "a:b", "")]),
        (b"unknown: a\nDATA: b\n\n", []),
        (b"\xef\xbb\xbfdata: bom\n\n", [Event("message", "bom", "")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: two\n\n", []),
        (b"data: \xff\xe2\x82\n\n", [Event("message", "\ufffd\ufffd", "")]),
        (b"data: unfinished\n", []),
        (b"\n\n\n", []),
    ],
)
def test_streams_of_the_standard(stream: bytes, expected: list[Event]) -> None:
    assert parse(stream) == expected


def test_an_event_is_given_out_at_its_blank_line_even_if_that_ends_in_cr() -> None:
    parser = Parser()
    assert parser.feed(b"data: x\r\r") == [Event("message", "x", "")]
    assert parser.feed(b"\ndata: y\r\n") == []
    assert parser.feed(b"\r") == [Event("message", "y", "")]
    assert parser.feed(b"\n\r\n") == []


def test_retry_is_digits_only() -> None:
    parser = Parser()
    parser.feed("retry: 1500\nretry: 2s\nretry: -1\nretry: ²\n\n".encode())
    assert parser.retry_ms == 1500


def test_the_last_id_survives_for_a_reconnect() -> None:
    parser = Parser(last_event_id="1-4")
    assert parser.feed(b"data: x\n\n") == [Event("message", "x", "1-4")]
    parser.feed(b"id: 1-5\ndata: y\n")
    assert parser.last_event_id == "1-4", "an incomplete event was not seen"
    parser.feed(b"\n")
    assert parser.last_event_id == "1-5"


def test_a_peer_cannot_fill_the_memory() -> None:
    parser = Parser(event_bytes_max=64)
    for _ in range(10):
        parser.feed(b"data: 0123456789\n\n")
    parser.feed(b"data: 0123456789\n" * 4)
    with pytest.raises(TooLarge):
        parser.feed(b"data: 0123456789\n")
    with pytest.raises(TooLarge):
        Parser(event_bytes_max=64).feed(b"x" * 65)


ends = st.sampled_from(["\n", "\r", "\r\n"])
values = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=20)
names = st.sampled_from(["message", "generation.text.delta", "é"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[Event]]:
    """Bytes with any line end at each line, and the events they mean."""
    out, events, last_id = "\ufeff" if draw(st.booleans()) else "", [], ""
    for _ in range(draw(st.integers(0, 5))):
        if draw(st.booleans()):
            out += f": {draw(values)}{draw(ends)}"
        name, lines = draw(names), draw(st.lists(values, min_size=1, max_size=3))
        out += f"event: {name}{draw(ends)}"
        if draw(st.booleans()):
            last_id = draw(values)
            out += f"id: {last_id}{draw(ends)}"
        out += "".join(f"data: {line}{draw(ends)}" for line in lines)
        # A CR right before an LF is one line end, not two: the blank line must not be swallowed.
        out += draw(st.sampled_from(["\r", "\r\n"]) if out.endswith("\r") else ends)
        events.append(Event(name, "\n".join(lines), last_id))
    return out.encode(), events


@given(streams(), st.lists(st.integers(0, 400)))
def test_the_meaning_does_not_depend_on_where_a_stream_is_split(
    made: tuple[bytes, list[Event]], cuts: list[int]
) -> None:
    stream, expected = made
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in itertools.pairwise(edges)]
    assert parse(*chunks) == expected
    assert parse(*(stream[at : at + 1] for at in range(len(stream)))) == expected


@given(st.binary(max_size=200))
def test_no_bytes_break_it(stream: bytes) -> None:
    whole = parse(stream)
    assert parse(*(stream[at : at + 1] for at in range(len(stream)))) == whole
