"""The worker's appends: what each answer means and what it leaves behind."""

import asyncio

import pytest

from connectors.errors import StreamOrderBroken
from connectors.redis.closer import StreamCloser
from connectors.redis.layout import Entry
from connectors.redis.reader import StreamReader
from connectors.redis.writer import AppendCode, Appended, StreamWriter
from schemas.generated.types import StopReason
from tests.contract.redis.servers import Server
from tests.support.streams import closing, delta, order

GEN = "gen_1"
OK = Appended(AppendCode.OK)


async def test_without_control_an_append_is_lost_and_creates_nothing(
    writer: StreamWriter, reader: StreamReader, server: Server
) -> None:
    answer = await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    assert answer.code is AppendCode.LOST
    assert (await writer.append(GEN, 1, 0, "text.delta", None)).code is AppendCode.LOST
    assert await server.ask("DBSIZE") == 0
    assert await reader.live(GEN) is None


async def test_an_append_is_kept_in_order_and_starts_the_run(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    assert (live := await reader.live(GEN)) is not None
    assert live.status == "queued"
    assert await writer.append(GEN, 1, 1, "text.delta", delta(0, "Zoë ")) == OK
    assert await writer.append(GEN, 1, 2, "text.delta", delta(4, "🎉")) == OK
    assert await reader.read(GEN, None) == [
        Entry(1, 1, "text.delta", delta(0, "Zoë ")),
        Entry(1, 2, "text.delta", delta(4, "🎉")),
    ]
    assert (live := await reader.live(GEN)) is not None
    assert live.status == "running"


async def test_the_same_append_again_counts_once(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    for _ in range(3):
        assert await writer.append(GEN, 1, 1, "text.delta", delta(0, "a")) == OK
    await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))
    assert await writer.append(GEN, 1, 1, "text.delta", delta(0, "a")) == OK
    assert len(await reader.read(GEN, None)) == 2


async def test_other_bytes_under_a_used_number_are_a_fault(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    with pytest.raises(StreamOrderBroken):
        await writer.append(GEN, 1, 1, "text.delta", delta(0, "b"))
    assert [entry.data for entry in await reader.read(GEN, None)] == [delta(0, "a")]


async def test_a_stop_is_told_with_the_text_appended(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await closer.stop(GEN, 2, StopReason.DISCONNECT)
    answer = await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    assert answer == Appended(AppendCode.STOP, stop=StopReason.DISCONNECT)
    assert len(await reader.read(GEN, None)) == 1
    beat = await writer.append(GEN, 1, 1, "text.delta", None)
    assert beat == Appended(AppendCode.STOP, stop=StopReason.DISCONNECT)


async def test_a_higher_epoch_fences_a_lower_one(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    assert (await writer.append(GEN, 2, 1, "text.delta", None)).code is AppendCode.OK
    assert (await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))).code is AppendCode.FENCED
    assert (await writer.append(GEN, 1, 1, "text.delta", None)).code is AppendCode.FENCED
    assert await writer.append(GEN, 2, 2, "text.delta", delta(1, "c")) == OK
    assert [entry.id for entry in await reader.read(GEN, None)] == [(1, 1), (2, 2)]


async def test_an_append_of_a_higher_epoch_fences_even_where_its_stream_is_lost(
    writer: StreamWriter, closer: StreamCloser, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 2, 1, "text.delta", delta(0, "a"))
    await server.ask("DEL", "gen:{gen_1}")
    assert (await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))).code is AppendCode.FENCED


async def test_the_stream_itself_refuses_an_old_epoch_after_control_was_made_anew(
    writer: StreamWriter, closer: StreamCloser, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 2, 2, "text.delta", delta(0, "a"))
    await server.ask("DEL", "ctl:{gen_1}")
    await closer.open_(GEN, 1, 2, order())
    assert (await writer.append(GEN, 1, 3, "text.delta", delta(1, "b"))).code is AppendCode.FENCED


async def test_after_the_end_nobody_appends(writer: StreamWriter, closer: StreamCloser) -> None:
    await closer.open_(GEN, 1, 1, order())
    await closer.end(GEN, closing(None, 1))
    assert (await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))).code is AppendCode.FENCED
    assert (await writer.append(GEN, 7, 1, "text.delta", delta(0, "a"))).code is AppendCode.FENCED


async def test_a_stream_that_is_gone_is_told_and_a_snapshot_is_never_missing(
    writer: StreamWriter, closer: StreamCloser, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    assert not (await writer.append(GEN, 1, 1, "text.delta", None)).missing
    await server.ask("DEL", "gen:{gen_1}")
    assert (await writer.append(GEN, 1, 1, "text.delta", None)).missing
    answer = await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))
    assert answer == Appended(AppendCode.OK, missing=True)
    assert await writer.append(GEN, 1, 3, "snapshot", b'{"text":"ab"}') == OK
    assert await writer.append(GEN, 1, 4, "text.delta", delta(2, "c")) == OK


async def test_that_a_stream_is_gone_is_told_again_with_a_repeat(
    writer: StreamWriter, closer: StreamCloser, server: Server
) -> None:
    """The first answer may be lost; without a snapshot a new reader would never see the beginning."""
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    await server.ask("DEL", "gen:{gen_1}")
    for _ in range(3):
        answer = await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))
        assert answer == Appended(AppendCode.OK, missing=True)
    for _ in range(2):
        assert await writer.append(GEN, 1, 3, "snapshot", b'{"text":"ab"}') == OK
    for _ in range(2):
        assert await writer.append(GEN, 1, 4, "text.delta", delta(2, "c")) == OK


async def test_every_append_renews_both_lives(
    writer: StreamWriter, closer: StreamCloser, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order(ttl_ms=60_000))
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    for key in ("gen:{gen_1}", "ctl:{gen_1}"):
        await server.ask("PEXPIRE", key, "1000")
    await writer.append(GEN, 1, 1, "text.delta", None)
    for key in ("gen:{gen_1}", "ctl:{gen_1}"):
        assert await server.ask("PTTL", key) > 50_000


async def test_the_reader_s_age_is_told_once_somebody_reads(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    assert (await writer.append(GEN, 1, 0, "text.delta", None)).reader_age_ms is None
    await reader.touch([GEN, "gen_unknown"])
    assert await server.ask("EXISTS", "ctl:{gen_unknown}") == 0
    age_ms = (await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))).reader_age_ms
    assert age_ms is not None
    assert 0 <= age_ms < 5_000


async def test_a_full_redis_still_tells_stop_and_fence(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    await server.set_full(True)
    full = await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))
    assert full == Appended(AppendCode.FULL)
    await closer.stop(GEN, 2, StopReason.USER)
    full = await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))
    assert full == Appended(AppendCode.FULL, stop=StopReason.USER)
    await reader.touch([GEN])
    await closer.fence(GEN, 2)
    fenced = await writer.append(GEN, 1, 2, "text.delta", delta(1, "b"))
    assert fenced.code is AppendCode.FENCED
    assert (await writer.append("gen_2", 1, 1, "x", b"{}")).code is AppendCode.LOST
    await server.set_full(False)
    assert [entry.id for entry in await reader.read(GEN, None)] == [(1, 1)]


async def test_many_writers_at_once_each_keep_their_order(
    writer: StreamWriter, closer: StreamCloser, reader: StreamReader
) -> None:
    async def write(generation_id: str) -> None:
        await closer.open_(generation_id, 1, 1, order())
        for sequence in range(1, 31):
            data = delta(sequence - 1, "x")
            assert await writer.append(generation_id, 1, sequence, "text.delta", data) == OK

    names = [f"gen_{number}" for number in range(40)]
    await asyncio.gather(*(write(name) for name in names))
    for name in names:
        ids = [entry.id for entry in await reader.read(name, None)]
        assert ids == [(1, sequence) for sequence in range(1, 31)]
