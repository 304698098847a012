"""Where a client goes on after a stream broke off."""

import pytest

from ops.drill.client import body_of, digest, ended, last_id
from ops.drill.evidence import Call, Seen, Shown

DELTA, EMPTY, END = "text.delta", "snapshot", "completed"


def seen(*shown: tuple[str, str]) -> Seen:
    events = tuple(Shown(id_, name, b"{}") for id_, name in shown)
    told = {"client": "00", "user_id": "usr_1", "call": Call.ASK, "status": 200}
    return Seen(began_ms=1, ended_ms=2, shown=events, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ([], None),
        ([("", "created"), ("", "queued")], None),
        ([("", "created"), ("1-1", DELTA), ("1-2", DELTA)], "1-2"),
        ([("1-4", DELTA), ("", EMPTY)], ""),
        ([("1-4", DELTA), ("", EMPTY), ("1-1", DELTA)], "1-1"),
    ],
)
def test_where_to_go_on(shown: list[tuple[str, str]], expected: str | None) -> None:
    assert last_id(seen(*shown)) == expected


def test_a_stream_ended_only_with_its_terminal() -> None:
    assert not ended(seen())
    assert not ended(seen(("1-1", DELTA)))
    assert ended(seen(("1-1", DELTA), ("1-2", END)))


def test_a_key_is_bound_to_what_is_asked_not_to_how_it_is_carried() -> None:
    streamed = body_of(3, 9.0, stream=True)
    assert digest(streamed) == digest(body_of(3, 9.0, stream=False))
    assert digest(streamed) != digest(body_of(4, 9.0, stream=True))
    assert digest(streamed) != digest(body_of(3, 9.0, stream=True, mark="x"))
