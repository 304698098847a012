"""What a client makes of the bytes of a stream, and where it goes on after one broke off."""

from collections.abc import AsyncIterator

import pytest

from ops.drill.client import Patience, _OwnIds, _read, body_of, digest, ended
from ops.drill.evidence import Call, Seen, Shown

DELTA, END = "text.delta", "completed"


def seen(*shown: tuple[str, str]) -> Seen:
    events = tuple(Shown(id_, name, b"{}") for id_, name in shown)
    told = {"client": "00", "user_id": "usr_1", "call": Call.ASK, "status": 200}
    return Seen(began_ms=1, ended_ms=2, shown=events, **told)  # type: ignore[arg-type]


def frame(name: str, id_: str | None = None) -> bytes:
    own = "" if id_ is None else f"id: {id_}\n"
    return f"{own}event: generation.{name}\ndata: {{}}\n\n".encode()


async def bytewise(raw: bytes) -> AsyncIterator[bytes]:
    for byte in raw:
        yield bytes([byte])


@pytest.mark.parametrize(
    ("frames", "shown", "place"),
    [
        ([frame("created"), frame("queued")], [("", "created"), ("", "queued")], ""),
        ([frame(DELTA, "1-1"), frame(DELTA, "1-2")], [("1-1", DELTA), ("1-2", DELTA)], "1-2"),
        ([frame(DELTA, "1-1"), frame(DELTA, "1-1")], [("1-1", DELTA), ("1-1", DELTA)], "1-1"),
        ([frame(DELTA, "1-4"), frame("snapshot")], [("1-4", DELTA), ("", "snapshot")], "1-4"),
        ([frame(DELTA, "1-4"), frame("snapshot", "")], [("1-4", DELTA), ("", "snapshot")], ""),
    ],
    ids=["no ids", "ids", "a repeated id", "an event without one", "told to forget"],
)
async def test_an_event_has_the_id_it_came_with(
    frames: list[bytes], shown: list[tuple[str, str]], place: str
) -> None:
    found: list[Shown] = []
    parser = _OwnIds("")
    await _read(bytewise(b"".join(frames)), found, Patience(), parser)
    assert [(one.id, one.name) for one in found] == shown
    assert parser.last_event_id == place


async def test_an_impatient_reader_leaves_after_so_many_events() -> None:
    found: list[Shown] = []
    raw = frame("created") + b"".join(frame(DELTA, f"1-{at}") for at in range(1, 9))
    await _read(bytewise(raw), found, Patience(2), _OwnIds(""))
    assert [one.id for one in found] == ["", "1-1", "1-2"]


def test_a_stream_ended_only_with_its_terminal() -> None:
    assert not ended(seen())
    assert not ended(seen(("1-1", DELTA)))
    assert ended(seen(("1-1", DELTA), ("1-2", END)))


def test_a_key_is_bound_to_what_is_asked_not_to_how_it_is_carried() -> None:
    streamed = body_of(3, 9.0, stream=True)
    assert digest(streamed) == digest(body_of(3, 9.0, stream=False))
    assert digest(streamed) != digest(body_of(4, 9.0, stream=True))
    assert digest(streamed) != digest(body_of(3, 9.0, stream=True, mark="x"))
