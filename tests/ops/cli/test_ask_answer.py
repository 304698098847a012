"""The answer as its events say it must be shown, whatever their cut."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.cli.ask_answer import Answer, Gap, apply, unseen

Event = tuple[str, dict[str, Any]]


def after(*events: Event) -> Answer:
    answer = Answer()
    for name, data in events:
        answer = apply(answer, f"generation.{name}", data)
    return answer


def delta(offset: int, text: str) -> Event:
    return "text.delta", {"index": 0, "offset": offset, "delta": text}


@given(st.lists(st.text(max_size=6), max_size=8), st.data())
def test_deltas_make_the_text_however_it_is_cut(parts: list[str], data: st.DataObject) -> None:
    text, events = "", []
    for part in parts:
        events.append(delta(len(text), part))
        text += part
        if data.draw(st.booleans()):
            events.append(delta(len(text) - len(part), part))  # the same again after a reconnect
    assert after(*events).text == text


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([delta(0, "ab"), ("snapshot", {"text": "xyz"}), delta(3, "!")], "xyz!"),
        ([delta(0, "abcd"), ("reset", {"offset": 2}), delta(2, "x")], "abx"),
        ([delta(0, "abcd"), ("retract", {"category": "c"})], ""),
        ([delta(0, "😀"), delta(1, "é"), delta(2, "x")], "😀éx"),
        ([delta(0, "a"), ("tool.started", {"step": 1, "tool": "t", "summary": "s"})], "a"),
        ([delta(0, "a"), ("never.heard.of", {})], "a"),
    ],
)
def test_what_is_shown(events: list[Event], text: str) -> None:
    assert after(*events).text == text


@pytest.mark.parametrize("event", [delta(3, "x"), ("reset", {"offset": 3})])
def test_a_hole_is_never_papered_over(event: Event) -> None:
    with pytest.raises(Gap):
        after(delta(0, "ab"), event)


@pytest.mark.parametrize(
    ("name", "data", "status"),
    [
        ("completed", {"finish_reason": "stop", "usage": {"output_tokens": 1}}, "completed"),
        ("cancelled", {"usage": {"output_tokens": 1}}, "cancelled"),
        ("stopped", {"usage": {"output_tokens": 1}}, "stopped"),
        ("error", {"code": "model_backend_error", "partial": True}, "failed"),
        ("error", {"code": "content_moderated", "partial": False}, "moderated"),
    ],
)
def test_how_it_ended(name: str, data: dict[str, Any], status: str) -> None:
    answer = after(delta(0, "ab"), (name, data))
    assert (answer.ended, answer.status) == (True, status)
    assert answer.error_code == data.get("code")


def test_waiting_is_told() -> None:
    created = ("created", {"generation_id": "gen_1", "status": "queued"})
    answer = after(created, ("queued", {"position": 3, "deadline_at": 1}))
    assert (answer.generation_id, answer.status, answer.position) == ("gen_1", "queued", 3)
    noticed = after(created, ("notice", {"code": "fallback_model", "message": "m"}))
    assert noticed.notices == ("fallback_model",)


def test_what_is_left_to_write() -> None:
    assert unseen("ab", "abc") == "c"
    assert unseen("ab", "ab") == ""
    assert unseen("ab", "ax") is None, "what was written cannot be unwritten"
