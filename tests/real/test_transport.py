"""The machines' transport on the real broker: aborted transactions, rebalances, a stopped member.

All on the metering machine, whose inbox is fed here directly. What a member may do wrong shows in its
changelog and in the group's offsets, so that is what is looked at.
"""

import itertools
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import msgspec
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ops.log_scan import Read, records
from ops.stack.fresh import FreshStack
from ops.stack.instance import Instance
from processors.stored import OWN_PREFIX, seq_of
from processors.transport.tenure import EXIT_FENCED, EXIT_REFUSED
from schemas.generated.types import MeteringInbox, UsageFact
from tests.processors.events import used
from topics import wire
from topics.partition import partition_of
from topics.registry import CHANGELOGS, FACTS_USAGE, METERING_INBOX

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]
SESSION_S: Final = 10.0
COME_S_MAX: Final = 40.0
CHANGELOG: Final = CHANGELOGS["metering"]
PARTITIONS: Final = range(METERING_INBOX.ring.partitions(local=True))


@pytest.fixture
def bootstrap(stack: FreshStack) -> str:
    return f"127.0.0.1:{stack.base + 10}"


def _at(bootstrap: str) -> dict[str, str | int]:
    return {"bootstrap.servers": bootstrap, "log_level": 2}


def put(producer: Producer, key: str, epoch: int = 1) -> None:
    """Tells metering of one computed epoch."""
    body = msgspec.structs.replace(used(epoch), generation_id=key)
    value = wire.encode(MeteringInbox(event_id=str(uuid.uuid4()), body=body))
    place = partition_of(key, len(PARTITIONS))
    producer.produce(METERING_INBOX.name, value, key=key, partition=place)


def put_everywhere(producer: Producer, count: int = 40) -> None:
    for _ in range(count):
        put(producer, f"gen_{uuid.uuid4()}")
    assert producer.flush(10) == 0


def ends(bootstrap: str) -> dict[int, int]:
    """The inbox's end offsets, markers of transactions counted."""
    reader = Consumer({**_at(bootstrap), "group.id": "ends"})
    try:
        asked = {one: TopicPartition(METERING_INBOX.name, one) for one in PARTITIONS}
        return {one: reader.get_watermark_offsets(tp, timeout=10)[1] for one, tp in asked.items()}
    finally:
        reader.close()


def lag(bootstrap: str) -> int:
    """Records that the group has not committed."""
    asked = [TopicPartition(METERING_INBOX.name, one) for one in PARTITIONS]
    group = ConsumerGroupTopicPartitions("milena-metering", asked)
    admin = AdminClient(_at(bootstrap))
    told = admin.list_consumer_group_offsets([group])
    (found,) = [future.result(10) for future in told.values()]
    until = ends(bootstrap)
    return sum(until[tp.partition] - max(0, tp.offset) for tp in found.topic_partitions)


def await_no_lag(bootstrap: str) -> None:
    deadline = time.monotonic() + COME_S_MAX
    while (left := lag(bootstrap)) > 0:
        assert time.monotonic() < deadline, f"{left} records are not committed"
        time.sleep(0.2)


def test_an_aborted_transaction_is_not_folded(bootstrap: str) -> None:
    aborted, kept = f"gen_{uuid.uuid4()}", f"gen_{uuid.uuid4()}"
    since_ms = time.time_ns() // 1_000_000 - 1_000
    place, deadline = partition_of(aborted, len(PARTITIONS)), time.monotonic() + COME_S_MAX
    before = ends(bootstrap)[place]
    torn = Producer({**_at(bootstrap), "transactional.id": f"t-{uuid.uuid4()}"})
    torn.init_transactions(10)
    torn.begin_transaction()
    put(torn, aborted)
    assert torn.flush(10) == 0
    torn.abort_transaction(10)
    while ends(bootstrap)[place] < before + 2:  # the record and, some time later, its marker
        assert time.monotonic() < deadline, "the transaction's marker did not come"
        time.sleep(0.05)
    after = Producer(_at(bootstrap))
    put(after, kept)
    put_everywhere(after)  # so that every partition ends with a record that can be committed
    await_no_lag(bootstrap)
    facts = [
        wire.decode(UsageFact, record.value).generation_id
        for record in records(bootstrap, [FACTS_USAGE], since_ms)
    ]
    assert kept in facts
    assert aborted not in facts


def test_offsets_advance_after_three_rebalances(stack: FreshStack, bootstrap: str) -> None:
    producer = Producer(_at(bootstrap))
    with ExitStack() as members:
        for number in range(3):
            name = f"metering-joins-{number}"
            one = members.enter_context(Instance(stack, "metering", name))
            one.fold()
            put_everywhere(producer)
        await_no_lag(bootstrap)
    put_everywhere(producer)
    await_no_lag(bootstrap)  # all three were killed: the first has every partition again


@contextmanager
def load(bootstrap: str) -> Iterator[None]:
    """The same few keys again and again, so that a late record would be about a state that moved on."""
    producer, over = Producer(_at(bootstrap)), threading.Event()
    keys = [f"gen_{uuid.uuid4()}" for _ in range(20)]

    def produce() -> None:
        for epoch in itertools.count(1):
            for key in keys:
                put(producer, key, epoch % 50 + 1)
            producer.flush(10)
            if over.wait(0.02):
                return

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def last_and_highest(log: list[Read]) -> tuple[dict[str, int], dict[str, int]]:
    """Per key the seq that compaction would keep, and the highest one."""
    last: dict[str, int] = {}
    highest: dict[str, int] = {}
    for record in log:
        if record.value is not None and not record.key.encode().startswith(OWN_PREFIX):
            last[record.key] = seq_of(record.value)
            highest[record.key] = max(last[record.key], highest.get(record.key, 0))
    return last, highest


def test_a_member_that_slept_changes_nothing_its_successor_wrote(
    stack: FreshStack, bootstrap: str
) -> None:
    since_ms = time.time_ns() // 1_000_000 - 1_000
    with Instance(stack, "metering", "metering-sleeps") as sleeper:
        sleeper.fold()
        with load(bootstrap):
            time.sleep(2)  # work in hand when it is stopped
            sleeper.hurt(signal.SIGSTOP)
            time.sleep(2 * SESSION_S)
            sleeper.hurt(signal.SIGCONT)
            assert sleeper.ended(5) == EXIT_FENCED
        await_no_lag(bootstrap)
    last, highest = last_and_highest([*records(bootstrap, [CHANGELOG], since_ms)])
    assert len(last) >= 20
    assert last == highest


def changelog_of(bootstrap: str, key: str, since_ms: int) -> list[Read]:
    return [one for one in records(bootstrap, [CHANGELOG], since_ms) if one.key == key]


def test_a_late_record_of_a_predecessor_does_not_stay_the_last(bootstrap: str) -> None:
    """As a member would write it that was stopped between its buffer and its socket."""
    since_ms = time.time_ns() // 1_000_000 - 1_000
    producer, key = Producer(_at(bootstrap)), f"gen_{uuid.uuid4()}"
    for epoch in (1, 2):
        put(producer, key, epoch)
        assert producer.flush(10) == 0
        await_no_lag(bootstrap)
    old, new = changelog_of(bootstrap, key, since_ms)
    producer.produce(CHANGELOG.name, old.value, key=key, partition=old.partition)
    assert producer.flush(10) == 0
    deadline = time.monotonic() + COME_S_MAX
    while [one.value for one in changelog_of(bootstrap, key, since_ms)] != [
        *(old.value, new.value, old.value, new.value)
    ]:
        assert time.monotonic() < deadline, "the owner did not answer"
        time.sleep(0.5)


def test_a_machine_refuses_topics_of_another_size_by_name(stack: FreshStack) -> None:
    settings = {"MILENA_KAFKA_LOCAL": "false"}
    with Instance(stack, "metering", "metering-refuses", settings) as refused:
        refused.start()
        assert refused.ended() == EXIT_REFUSED
        told = refused.log.read_text()
    assert f"topic {METERING_INBOX.name} has 4 partitions, expected 64" in told
    assert f"topic {CHANGELOG.name} has 4 partitions, expected 64" in told
