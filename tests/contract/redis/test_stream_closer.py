"""Control writes and ends, each twice, late and after losses."""

import asyncio

from connectors.redis.calls import Calls
from connectors.redis.closer import ControlCode, EndAnswer, EndCode, StreamCloser
from connectors.redis.reader import StreamReader
from connectors.redis.shown import Shown
from connectors.redis.writer import AppendCode, StreamWriter
from schemas.generated.types import StopReason
from tests.contract.redis.servers import Server
from tests.support.streams import closing, delta, order

GEN = "gen_1"


async def test_a_number_that_is_not_higher_changes_nothing(
    closer: StreamCloser, reader: StreamReader
) -> None:
    assert await closer.open_(GEN, 1, 5, order()) is ControlCode.APPLIED
    before = await reader.live(GEN)
    for number in (4, 5):
        assert await closer.open_(GEN, 3, number, order(status="x")) is ControlCode.OLD
        assert await closer.stop(GEN, number, StopReason.USER) is ControlCode.OLD
        assert await closer.release_to(GEN, number, 7) is ControlCode.OLD
    assert await reader.live(GEN) == before


async def test_only_open_creates(closer: StreamCloser, server: Server) -> None:
    assert await closer.stop(GEN, 1, StopReason.USER) is ControlCode.MISSING
    assert await closer.release_to(GEN, 1, 7) is ControlCode.MISSING
    assert not (await closer.fence(GEN, 2)).exists
    assert await server.ask("DBSIZE") == 0


async def test_a_stop_and_an_epoch_are_never_taken_back(
    closer: StreamCloser, writer: StreamWriter, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await closer.stop(GEN, 2, StopReason.DISCONNECT)
    await writer.append(GEN, 4, 0, "text.delta", None)
    await closer.stop(GEN, 3, StopReason.DEADLINE)
    assert await closer.open_(GEN, 1, 4, order()) is ControlCode.APPLIED
    assert (live := await reader.live(GEN)) is not None
    assert (live.stop, live.epoch) == (StopReason.DISCONNECT, 4)


async def test_a_loss_is_restored_whole(
    closer: StreamCloser, writer: StreamWriter, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await server.ask("FLUSHALL")
    assert (await writer.append(GEN, 1, 1, "x", b"{}")).code is AppendCode.LOST
    await closer.open_(GEN, 2, 3, order(stop=StopReason.USER))
    assert (await writer.append(GEN, 1, 1, "x", b"{}")).code is AppendCode.FENCED
    assert (await writer.append(GEN, 2, 1, "x", b"{}")).code is AppendCode.STOP


async def test_a_fence_stops_workers_and_what_is_shown_stands(
    closer: StreamCloser, writer: StreamWriter
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "héé"))
    stands = Shown("héé", 3, 1, 1, exists=True)
    assert await closer.fence(GEN, 2) == stands
    assert await closer.fence(GEN, 1) == stands
    assert (await writer.append(GEN, 1, 2, "text.delta", delta(3, "b"))).code is AppendCode.FENCED
    assert await closer.fence(GEN, 2) == stands


async def test_a_fence_before_the_first_text_shows_nothing(
    closer: StreamCloser, writer: StreamWriter
) -> None:
    await closer.open_(GEN, 1, 1, order())
    assert await closer.fence(GEN, 2) == Shown("", 0, 0, 0, exists=False)
    assert (await writer.append(GEN, 1, 1, "x", b"{}")).code is AppendCode.FENCED


async def test_a_stream_of_many_pages_is_read_whole(closer: StreamCloser, calls: Calls) -> None:
    for last in (999, 1_000, 1_001, 2_500):
        name = f"gen_{last}"
        await asyncio.gather(
            *(
                calls.command("XADD", f"gen:{{{name}}}", f"1-{at}", "e", "text.delta", "d", data)
                for at in range(1, last + 1)
                for data in [delta(at - 1, "x")]
            )
        )
        shown = await closer.fence(name, 2)
        assert (shown.code_points, shown.last_sequence, shown.whole) == (last, last, True)


async def test_a_stream_trimmed_to_nothing_keeps_its_last_number(
    closer: StreamCloser, writer: StreamWriter, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    await server.ask("XTRIM", "gen:{gen_1}", "MAXLEN", "0")
    assert await closer.fence(GEN, 2) == Shown("", 0, 1, 1, exists=True)


async def test_one_terminal_however_often_it_is_asked_for(
    closer: StreamCloser, writer: StreamWriter, reader: StreamReader, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    await closer.fence(GEN, 2)
    answers = await asyncio.gather(*(closer.end(GEN, closing((1, 1), 2)) for _ in range(8)))
    assert sorted(answer.code for answer in answers) == [EndCode.APPLIED] + 7 * [EndCode.ENDED]
    assert {answer.terminal for answer in answers} == {(2, 2)}
    assert [entry.id for entry in await reader.read(GEN, None)] == [(1, 1), (2, 2)]
    assert (live := await reader.live(GEN)) is not None
    assert (live.ended, live.status) == ((2, 2), "completed")
    for key in ("gen:{gen_1}", "ctl:{gen_1}"):
        assert 100_000 < await server.ask("PTTL", key) <= 120_000
    assert await closer.open_(GEN, 5, 99, order()) is ControlCode.ENDED
    assert await closer.stop(GEN, 99, StopReason.USER) is ControlCode.ENDED
    await closer.fence(GEN, 99)
    assert await reader.live(GEN) == live


async def test_a_mark_that_was_lost_makes_no_second_terminal(
    closer: StreamCloser, writer: StreamWriter, reader: StreamReader, server: Server
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await closer.end(GEN, closing(None, 1))
    await server.ask("DEL", "ctl:{gen_1}")
    assert await closer.end(GEN, closing((2, 1), 2)) == EndAnswer(EndCode.ENDED, (2, 1))
    assert len(await reader.read(GEN, None)) == 1
    assert (await writer.append(GEN, 3, 1, "x", b"{}")).code is AppendCode.FENCED


async def test_a_stream_lost_after_its_end_is_not_ended_anew(
    closer: StreamCloser, server: Server, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await closer.end(GEN, closing(None, 1))
    await server.ask("DEL", "gen:{gen_1}")
    again = await closer.end(GEN, closing(None, 5, snapshot="x"))
    assert again == EndAnswer(EndCode.ENDED, (2, 1))
    assert await reader.read(GEN, None) == []


async def test_an_end_on_another_stream_than_was_seen_changes_nothing(
    closer: StreamCloser, writer: StreamWriter, server: Server, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await writer.append(GEN, 1, 1, "text.delta", delta(0, "a"))
    moved = EndAnswer(EndCode.MOVED, None)
    assert await closer.end(GEN, closing(None, 1)) == moved
    assert await closer.end(GEN, closing((1, 2), 3)) == moved
    await server.ask("FLUSHALL")
    assert await closer.end(GEN, closing((1, 1), 2)) == moved
    assert await server.ask("DBSIZE") == 0


async def test_an_end_after_a_flush_shows_the_text_and_fences_for_two_minutes(
    closer: StreamCloser, writer: StreamWriter, reader: StreamReader
) -> None:
    done = await closer.end(GEN, closing(None, 2_000_001, snapshot="all of it"))
    assert done == EndAnswer(EndCode.APPLIED, (2, 2_000_001))
    entries = await reader.read(GEN, None)
    assert [(entry.id, entry.event) for entry in entries] == [
        ((2, 2_000_000), "snapshot"),
        ((2, 2_000_001), "completed"),
    ]
    assert [entry.terminal for entry in entries] == [False, True]
    assert (await writer.append(GEN, 1, 5, "x", b"{}")).code is AppendCode.FENCED
    assert (live := await reader.live(GEN)) is not None
    assert live.user_id == "usr_1"


async def test_control_and_end_pass_a_full_redis(
    closer: StreamCloser, writer: StreamWriter, server: Server, reader: StreamReader
) -> None:
    await closer.open_(GEN, 1, 1, order())
    await server.set_full(True)
    assert await closer.open_("gen_2", 1, 1, order()) is ControlCode.APPLIED
    assert await closer.stop(GEN, 2, StopReason.USER) is ControlCode.APPLIED
    assert (await closer.fence(GEN, 2)).exists is False
    assert (await closer.end(GEN, closing(None, 2, snapshot="a"))).code is EndCode.APPLIED
    assert len(await reader.read(GEN, None)) == 2
