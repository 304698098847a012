"""The same random sequence of operations on both servers gives the same answers and the same messages."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import RedisAway, RedisRefused, StreamOrderBroken
from connectors.redis.calls import Calls
from connectors.redis.closer import StreamCloser
from connectors.redis.layout import channel, control_key, payload_key, stream_key
from connectors.redis.memory_keys import Answer, Keyspace
from connectors.redis.memory_scripts import TWINS, Twin, append
from connectors.redis.push import PushConnection
from connectors.redis.reader import Live, StreamReader
from connectors.redis.scripts import SCRIPTS
from connectors.redis.writer import Appended, StreamWriter
from schemas.generated.types import StopReason
from tests.contract.redis.servers import InMemory, RealServer, Server
from tests.support.redis_server import RedisServer
from tests.support.streams import closing, order

GENS = ("gen_1", "gen_2")
KEYS = (stream_key, control_key, payload_key)
MARK = "push:{mark}"


class Side:
    """One server with everything of ours that speaks to it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._calls = Calls(server.settings, server.make_link)
        self.writer = StreamWriter(self._calls)
        self.closer = StreamCloser(self._calls)
        self.reader = StreamReader(self._calls)
        self.heard: list[tuple[str, bytes]] = []
        self._marked = asyncio.Event()
        self._push = PushConnection(
            server.settings, self._deliver, lambda: None, make_link=server.make_link
        )

    async def start(self) -> None:
        self._push.start()
        for name in (channel(GENS[0]), MARK):
            self._push.subscribe(name)
            assert await self._push.confirmed(name, 5)

    async def all_heard(self) -> list[tuple[str, bytes]]:
        """Everything published before now."""
        assert await self.server.ask("SPUBLISH", MARK, "") == 1
        async with asyncio.timeout(5):
            await self._marked.wait()
        return self.heard

    async def close(self) -> None:
        await self._push.close()
        await self._calls.close()
        await self.server.close()

    def _deliver(self, name: str, message: bytes) -> None:
        if name == MARK:
            self._marked.set()
        else:
            self.heard.append((name, message))


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What one operation is told; each uses what it needs."""

    kind: str
    gen: str
    epoch: int
    sequence: int
    number: int
    event: str
    data: bytes
    place: tuple[int, int] | None


def timeless(answer: Any) -> Any:
    """An answer without what two clocks could tell differently."""
    match answer:
        case Appended(reader_age_ms=int(age_ms)):
            assert 0 <= age_ms < 60_000
            return msgspec.structs.replace(answer, reader_age_ms=0)
        case Live(reader_seen_at_ms=int()):
            return msgspec.structs.replace(answer, reader_seen_at_ms=0)
    return answer


async def done(side: Side, told: Told) -> Any:
    try:
        return timeless(await OPERATIONS[told.kind](side, told))
    except (RedisAway, RedisRefused, StreamOrderBroken) as error:
        return type(error)


async def _open(side: Side, told: Told) -> Any:
    stop = StopReason.USER if told.number == 5 else None
    said = order(stop=stop, released_to=None if told.sequence < 4 else told.sequence)
    return await side.closer.open_(told.gen, told.epoch - 1, told.number, said)


async def _end(side: Side, told: Told) -> Any:
    shown = "x" if told.sequence > 3 else None
    end = closing(told.place, told.sequence + 1, epoch=told.epoch + 1, snapshot=shown)
    return await side.closer.end(told.gen, end)


async def _end_as_seen(side: Side, told: Told) -> Any:
    seen = await side.closer.fence(told.gen, told.epoch)
    last = (seen.last_epoch, seen.last_sequence) if seen.exists else None
    end = closing(last, seen.last_sequence + 1, epoch=told.epoch + 1)
    return await side.closer.end(told.gen, end)


OPERATIONS: Final[dict[str, Callable[[Side, Told], Awaitable[Any]]]] = {
    "open": _open,
    "append": lambda s, t: s.writer.append(t.gen, t.epoch, t.sequence, t.event, t.data),
    "check": lambda s, t: s.writer.append(t.gen, t.epoch, t.sequence - 1, t.event, None),
    "stop": lambda s, t: s.closer.stop(t.gen, t.number, StopReason.DISCONNECT),
    "release": lambda s, t: s.closer.release_to(t.gen, t.number, t.sequence),
    "fence": lambda s, t: s.closer.fence(t.gen, t.epoch),
    "end": _end,
    "end as seen": _end_as_seen,
    "read": lambda s, t: s.reader.read(t.gen, t.place, t.sequence),
    "live": lambda s, t: s.reader.live(t.gen),
    "touch": lambda s, t: s.reader.touch([t.gen]),
    "payload": lambda s, t: s.reader.put_payload(t.gen, t.data, 600),
    "kept": lambda s, t: s.reader.get_payload(t.gen),
    "lose": lambda s, t: s.server.ask("DEL", KEYS[t.sequence % 3](t.gen)),
    "trim": lambda s, t: s.server.ask("XTRIM", stream_key(t.gen), "MAXLEN", t.sequence - 1),
    "flush": lambda s, t: s.server.ask("FLUSHALL"),
    "full": lambda s, t: s.server.set_full(t.sequence > 1),
}
MOST: Final = ("open", "open", "append", "append", "append", "check", "end as seen")
"""Drawn more often than the rest, so that streams grow before they are hurt."""
epochs = st.integers(1, 4)
operations = st.builds(
    Told,
    kind=st.sampled_from((*MOST, *OPERATIONS)),
    gen=st.sampled_from(GENS),
    epoch=epochs,
    sequence=st.integers(1, 5),
    number=st.integers(1, 6),
    event=st.sampled_from(["text.delta", "text.delta", "snapshot"]),
    data=st.sampled_from([b'{"a":1}', b'{"a":"\xc3\xa9 \\n"}']),
    place=st.none() | st.tuples(epochs, st.integers(0, 6)),
)


async def compare(process: RedisServer, asked: list[Told]) -> None:
    sides = Side(RealServer(process)), Side(InMemory())
    try:
        for side in sides:
            await side.start()
        for told in asked:
            answers = [await done(side, told) for side in sides]
            assert answers[0] == answers[1], told
        lives = [await _lives(side) for side in sides]
        assert lives[0] == lives[1]
        heard = [await side.all_heard() for side in sides]
        assert heard[0] == heard[1]
    finally:
        for side in sides:
            await side.server.set_full(False)
            await side.close()


async def _lives(side: Side) -> list[int]:
    """How long each key lives, in tens of seconds."""
    names = [key(gen) for gen in GENS for key in KEYS]
    found = [await side.server.ask("PTTL", name) for name in names]
    return [round(ttl_ms / 10_000) if ttl_ms > 0 else ttl_ms for ttl_ms in found]


@settings(max_examples=150, deadline=None)
@given(st.lists(operations, min_size=1, max_size=40))
def test_both_answer_alike(process: RedisServer, asked: list[Told]) -> None:
    asyncio.run(compare(process, asked))


async def test_every_script_has_its_twin(process: RedisServer) -> None:
    assert {script.name for script in SCRIPTS} == set(TWINS)


async def test_a_twin_that_forgets_something_is_found(
    process: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison sees a worker that is not fenced after the end."""
    steps = [("open", 2), ("append", 2), ("end as seen", 2), ("append", 4)]
    asked = [
        Told(kind=kind, gen=GENS[0], epoch=epoch, sequence=1, number=6, event="text.delta",
             data=b"{}", place=None)
        for kind, epoch in steps
    ]  # fmt: skip
    await compare(process, asked)

    def blind(keys: Keyspace, names: Sequence[str], given: Sequence[bytes]) -> Answer:
        (keys.hash(names[1]) or {}).pop("ended", None)
        return append(keys, names, given)

    monkeypatch.setitem(cast("dict[str, Twin]", TWINS), "append", blind)
    with pytest.raises(AssertionError):
        await compare(process, asked)
