"""The history: what was begun and how it ended, read back as it was; bounded; nothing open is forgotten."""

from itertools import count
from pathlib import Path

import pytest

from ops.drill import history as histories
from ops.drill.evidence import Call, Seen, Shown
from ops.drill.history import Full, Head, History, Outcome, outcome, read

HEAD = Head(cell="edge-kill", seed=7, began_ms=1)


def call(**more: object) -> Seen:
    told = {"client": "00", "user_id": "usr_1", "call": Call.ASK, "began_ms": 5, "ended_ms": 5}
    return Seen(**{**told, "status": None, **more})  # type: ignore[arg-type]


def test_a_history_is_read_back_in_the_order_of_ends(tmp_path: Path) -> None:
    clock = count(10)
    with History(tmp_path / "h.jsonl", HEAD, lambda: next(clock)) as history:
        first, second = history.begin(call()), history.begin(call(client="01"))
        shown = (Shown("1-1", "text.delta", '{"delta":"é"}'.encode()),)
        history.end(second, status=200, generation_id="gen_1", shown=shown)
        history.end(first, status=503, code="capacity_exhausted")
        assert (history.calls, history.running) == (2, 0)
    head, seen = read(tmp_path / "h.jsonl")
    assert head == HEAD
    assert [(one.client, one.status, one.ended_ms) for one in seen] == [
        ("01", 200, 10),
        ("00", 503, 11),
    ]
    assert seen[0].shown == shown


def test_what_was_open_at_the_end_is_unknown(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl", HEAD, lambda: 9)
    history.begin(call())
    assert history.running == 1
    history.close()
    _, (seen,) = read(tmp_path / "h.jsonl")
    assert (seen.status, seen.ended_ms) == (None, 9)
    assert outcome(seen) is Outcome.UNKNOWN


def test_a_history_is_bounded_in_calls_and_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "CALLS_MAX", 2)
    with History(tmp_path / "a", HEAD, lambda: 1) as history:
        history.end(history.begin(call()))
        history.begin(call())
        with pytest.raises(Full):
            history.begin(call())
    small = History(tmp_path / "b", HEAD, lambda: 1, bytes_max=400)
    number = small.begin(call())
    with pytest.raises(Full):
        small.end(number, generation_id="x" * 400)
    small.close()


def test_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").write_text('{"cell":"a","seed":1,"began_ms":1,"version":0}\n')
    with pytest.raises(ValueError, match="version 0"):
        read(tmp_path / "old")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, Outcome.OK),
        (202, Outcome.OK),
        (409, Outcome.FAIL),
        (429, Outcome.FAIL),
        (503, Outcome.UNKNOWN),
        (None, Outcome.UNKNOWN),
    ],
)
def test_outcomes(status: int | None, expected: Outcome) -> None:
    assert outcome(call(status=status)) is expected
