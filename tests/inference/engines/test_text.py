"""Laws of the text splitter: the cut of the bytes never shows, and no stop string gets out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.engines.text import TextSplitter

# Few letters, so that stop strings, their beginnings and overlaps are common.
TEXTS = st.text(alphabet="abé那😀\u2028\ufffd", max_size=40)
STOPS = st.lists(st.text(alphabet="abé那", min_size=1, max_size=4), max_size=3)


def shown(pieces: list[bytes], stop: list[str]) -> str:
    splitter = TextSplitter(stop)
    return "".join(map(splitter.feed, pieces)) + splitter.finish()


def cut(data: bytes, at: list[int]) -> list[bytes]:
    edges = [0, *sorted(min(place, len(data)) for place in at), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def expected(text: str, stop: list[str]) -> str:
    """The slow way: character by character, until a stop string is complete."""
    for end in range(len(text) + 1):
        met = [s for s in stop if text[:end].endswith(s)]
        if met:
            return text[: end - len(max(met, key=len))]
    return text


@given(TEXTS, STOPS, st.lists(st.integers(0, 200)))
def test_any_cut_of_the_bytes_gives_the_same_text(
    text: str, stop: list[str], at: list[int]
) -> None:
    assert shown(cut(text.encode(), at), stop) == expected(text, stop)


@given(TEXTS, STOPS, st.lists(st.integers(0, 200)))
def test_no_stop_string_is_ever_shown(text: str, stop: list[str], at: list[int]) -> None:
    result = shown(cut(text.encode(), at), stop)
    assert not any(s in result for s in stop)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_bytes_that_are_no_text_are_dropped_in_any_cut(data: bytes, at: list[int]) -> None:
    result = shown(cut(data, at), [])
    assert result == data.decode(errors="ignore")
    assert ("\ufffd" in result) <= (b"\xef\xbf\xbd" in data)


@given(TEXTS, st.lists(st.integers(0, 200)))
def test_text_without_stop_strings_waits_for_nothing_but_its_character(
    text: str, at: list[int]
) -> None:
    splitter, seen = TextSplitter(), b""
    out = ""
    for piece in cut(text.encode(), at):
        seen += piece
        out += splitter.feed(piece)
        assert out == seen.decode(errors="ignore")


@pytest.mark.parametrize(
    ("pieces", "stop", "result"),
    [
        (["那".encode()[:2]], [], ""),
        ([b"ok ", "😀".encode()[:3]], [], "ok "),
        ([b"one EN", b"D two"], ["END"], "one "),
        ([b"one EN", b"GINE"], ["END"], "one ENGINE"),
        ([b"one EN"], ["END"], "one EN"),
        ([b"abc", b"d"], ["abcd", "bc"], "a"),
        ([b"xab", b"c"], ["abc", "bc"], "x"),
    ],
)
def test_examples(pieces: list[bytes], stop: list[str], result: str) -> None:
    assert shown(pieces, stop) == result


def test_after_a_stop_string_nothing_is_shown() -> None:
    splitter = TextSplitter(["."])
    assert splitter.feed(b"one. two") == "one"
    assert splitter.stopped
    assert splitter.feed(b" three") == ""
    assert splitter.finish() == ""
