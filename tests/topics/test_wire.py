"""Bytes and values: every record there and back, and a named reason for whatever is no record."""

import struct
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.generated.types import AccountsInbox, Due, MeteringInbox, RunsInbox, UsageFact
from schemas.release import releases, roots
from tests.support import values
from topics.errors import InvalidRecord
from topics.wire import decode, encode

BODY = Due(deadline_at_ms=1, live_s=2)
DUE = MeteringInbox(event_id="e", body=BODY)
any_record = st.sampled_from(roots()).flatmap(values.of)


@given(any_record)
def test_every_record_comes_back_as_it_went(value: msgspec.Struct) -> None:
    assert decode(type(value), encode(value)) == value


def test_the_frame_is_confluents() -> None:
    raw = encode(DUE)
    newest = releases()["MeteringInbox"][-1]
    assert raw[:5] == struct.pack(">BI", 0, newest.id)


def test_the_branch_of_an_envelope_is_kept() -> None:
    back = decode(RunsInbox, encode(RunsInbox(event_id="e", body=BODY)))
    assert isinstance(back.body, Due)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (None, "null_value"),
        (b"", "null_value"),
        (b"\0\0\0", "not_framed"),
        (b"\1" + encode(DUE)[1:], "not_framed"),
        (b'{"event_id": "e"}', "not_framed"),
        (struct.pack(">BI", 0, 4_000_000_000) + encode(DUE)[5:], "unknown_schema_id"),
        (struct.pack(">BI", 0, 0) + encode(DUE)[5:], "unknown_schema_id"),
        (encode(AccountsInbox(event_id="e", body=BODY)), "other_record"),
        (encode(DUE)[:5], "broken_avro"),
        (encode(DUE)[:-1], "broken_avro"),
        (encode(DUE) + b"\0", "trailing_bytes"),
        (encode(DUE)[:5] + b"\xff" * 20, "broken_avro"),
        (encode(DUE)[:5] + b"\x02\xff" + encode(DUE)[7:], "broken_avro"),
    ],
)
def test_what_is_no_record_is_named(raw: bytes | None, reason: str) -> None:
    with pytest.raises(InvalidRecord) as refused:
        decode(MeteringInbox, raw)
    assert refused.value.reason == reason
    assert str(refused.value) == reason, "a reason is a word, never a part of the record"


@given(any_record, st.binary(max_size=60), st.integers(0, 200))
def test_no_bytes_are_worse_than_invalid(value: msgspec.Struct, noise: bytes, keep: int) -> None:
    raw = encode(value)
    for broken in (raw[:5] + noise, raw[: 5 + keep] + noise, raw[: 5 + keep]):
        with suppress(InvalidRecord):
            decode(type(value), broken)


def test_timestamps_stay_integers() -> None:
    """The schema says timestamp for foreign readers; the hot path must not make datetimes."""
    fact = UsageFact(
        event_id="e", at=1_796_000_000_123, generation_id="gen_1", epoch=1, user_id="usr_1",
        model="m", model_version="v", pool="p", void=False, input_tokens=1,
        cached_input_tokens=0, output_tokens=2, estimated=False, run_ms=3,
    )  # fmt: skip
    assert decode(UsageFact, encode(fact)).at == 1_796_000_000_123
