"""The edge's reads and payloads."""

from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.reader import PutCode, StreamReader
from connectors.redis.writer import StreamWriter
from tests.contract.redis.servers import Server
from tests.support.streams import delta, order

GEN = "gen_1"


async def test_reads_go_on_strictly_after_a_place(calls: Calls) -> None:
    reader, writer = StreamReader(calls), StreamWriter(calls)
    await StreamCloser(calls).open_(GEN, 1, 1, order())
    for sequence in range(1, 8):
        await writer.append(GEN, 1, sequence, "text.delta", delta(sequence - 1, "a"))
    assert [entry.sequence for entry in await reader.read(GEN, (1, 5))] == [6, 7]
    assert [entry.sequence for entry in await reader.read(GEN, (1, 2), count=3)] == [3, 4, 5]
    assert await reader.read(GEN, (1, 7)) == []
    assert await reader.read(GEN, (9, 0)) == []
    assert await reader.read("gen_2", None) == []


async def test_payloads_live_for_their_time(calls: Calls, server: Server) -> None:
    reader = StreamReader(calls)
    assert await reader.get_payload(GEN) is None
    assert await reader.put_payload(GEN, b'{"messages":[]}', 60) is PutCode.OK
    assert await reader.get_payload(GEN) == b'{"messages":[]}'
    assert 0 < await server.ask("PTTL", "pay:{gen_1}") <= 60_000


async def test_a_payload_that_finds_no_place_is_told(calls: Calls, server: Server) -> None:
    reader = StreamReader(calls)
    await server.set_full(True)
    assert await reader.put_payload(GEN, b"{}", 60) is PutCode.FULL
    await server.set_full(False)
    assert await reader.put_payload(GEN, b"{}", 60) is PutCode.OK
