"""What the watch makes of what the broker says: another topic, a standstill, strangers, a silent send."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import IsolationLevel

from processors import stored
from processors.transport import changelog, watch
from processors.transport.offsets import Place
from processors.transport.producer import APPEND_S_MAX
from processors.transport.tenure import EXIT_FENCED, EXIT_REFUSED, EXIT_RESTART
from processors.transport.watch import GONE, Watch
from tests.processors.transport.drivers import CHANGELOG, INBOX, Make, Ours
from tests.processors.transport.test_recovery_losses import Record


@pytest.fixture
def make() -> Make:
    return Ours


class Broker:
    """What the broker would say, and the clock by which it is judged."""

    def __init__(self, bench: Ours, monkeypatch: pytest.MonkeyPatch) -> None:
        self.topic_id = bench.app.tenure.topic_id = "first"
        self.ends = {INBOX: 0, CHANGELOG: 5}
        self.position = 0
        self.strange = [Record(b"ann", stored.framed(1, b"old")), Record(b"ben", None)]
        self.read: list[Any] = []
        self.put_again: list[Any] = []
        self.oldest_s = self.now_s = 0.0
        bench.app.tenure.strangers.begin(0, 5)
        bench.app.tenure.gate.open()
        bench.app.put_again = self._put_again
        self.watch = Watch(bench.app)
        monkeypatch.setattr(self.watch, "_topic_id", lambda: self.topic_id)
        monkeypatch.setattr(self.watch, "_ends", self._ends)
        monkeypatch.setattr(changelog, "read", self._read)
        monkeypatch.setattr(bench.consumer, "position_of", lambda _: self.position)
        monkeypatch.setattr(bench.app.producer, "oldest_s", lambda _: self.oldest_s)
        monkeypatch.setattr(watch, "elapsed_s", lambda: self.now_s)

    async def look(self, now_s: float = 0.0) -> None:
        self.now_s = now_s
        await self.watch._look()

    def _ends(self, places: Sequence[Place], isolation: IsolationLevel) -> Mapping[Place, int]:
        committed = isolation == IsolationLevel.READ_COMMITTED
        assert committed == (INBOX in places)  # an end beyond what can be read is no lag
        return {place: self.ends[place] for place in places}

    def _read(self, _: str, topic: str, spans: Any, put: Any, *__: Any) -> None:
        self.read.append((topic, spans))
        for record in self.strange:
            put(record)

    async def _put_again(self, partition: int, strangers: Sequence[tuple[bytes, int]]) -> None:
        self.put_again.append((partition, [*strangers]))


@pytest.fixture
def broker(bench: Ours, monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(bench, monkeypatch)


async def test_all_is_well(bench: Ours, broker: Broker) -> None:
    await broker.look()
    assert bench.ended == []
    assert broker.read == []


@pytest.mark.parametrize("found", ["second", GONE])
async def test_an_inbox_that_is_another_topic_ends_the_process(
    bench: Ours, broker: Broker, found: str
) -> None:
    broker.topic_id = found
    await broker.look()
    assert bench.ended == [EXIT_REFUSED]


async def test_a_consumer_that_lives_and_eats_nothing_is_ended(bench: Ours, broker: Broker) -> None:
    broker.ends[INBOX] = 7
    for now_s in (0, 30, 60):
        await broker.look(now_s)
    assert bench.ended == []
    await broker.look(61)
    assert bench.ended == [EXIT_FENCED]


async def test_an_end_without_records_is_no_lag(bench: Ours, broker: Broker) -> None:
    broker.ends[INBOX] = broker.position = 7  # read to its end, and nothing there could be folded
    await broker.look(0)
    await broker.look(120)
    assert bench.ended == []


async def test_read_is_not_done(bench: Ours, broker: Broker) -> None:
    broker.ends[INBOX] = broker.position = 7
    bench.take(6)
    await broker.look(0)
    await broker.look(61)
    assert bench.ended == [EXIT_FENCED]


async def test_what_strangers_wrote_is_read_and_answered_once(broker: Broker) -> None:
    broker.ends[CHANGELOG] = 8
    await broker.look()
    await broker.look()
    assert broker.read == [(CHANGELOG.topic, {0: (5, 8)})]
    assert broker.put_again == [(0, [(b"ann", 1), (b"ben", 0)])]


async def test_a_changelog_that_was_cut_ends_the_process(bench: Ours, broker: Broker) -> None:
    broker.ends[CHANGELOG] = 4
    await broker.look()
    assert bench.ended == [EXIT_REFUSED]


async def test_a_send_without_an_answer_ends_the_process(bench: Ours, broker: Broker) -> None:
    broker.oldest_s = APPEND_S_MAX + 1
    await broker.look()
    assert bench.ended == [EXIT_RESTART]
