"""How many decisions a second the accounts machine makes, beside the same fold on stock Faust.

Owns the measurement: a broker of its own, accounts with a day's requests in them, a backlog of lives, and
each process alone with it in turn. CPU is the operating system's account of the one process, all its
threads.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
import psutil
from confluent_kafka import Producer, TopicPartition

from ops.bench.account_events import STEPS, retained, rounds, users
from ops.bench.stock_faust import APP, READY
from ops.log_scan import CALL_S_MAX, bounds, new_consumer
from ops.stack.beside import Beside
from ops.stack.fresh import DidNotCome, FreshStack
from ops.stack.instance import Instance
from processors import marks, stored
from processors.machines import MACHINES
from processors.places import changelog_partition
from processors.stored import Stored, seq_at
from topics import wire
from topics.partition import partition_of
from topics.registry import ACCOUNTS_INBOX, CHANGELOGS
from topics.runtime.clock import wall_ms
from topics.topology import topic_id

USERS: Final = 1_000
RETAINED: Final = 40
READY_S_MAX: Final = 60.0
FOLD_S_MAX: Final = 300.0
_LOOK_S: Final = 0.02

Say = Callable[[str], None]


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """What one process did with the backlog."""

    name: str
    decisions: int
    wall_s: float
    cpu_s: float

    @property
    def per_core_s(self) -> float:
        """Decisions for each second of CPU."""
        return self.decisions / self.cpu_s

    @property
    def per_s(self) -> float:
        return self.decisions / self.wall_s


def run(lives_a_user: int, say: Say) -> tuple[Rate, Rate]:
    """Milena's machine, then stock Faust, over the same backlog and the same states."""
    with tempfile.TemporaryDirectory(prefix="milena-bench-") as folder:
        env = {
            "MILENA_STACK_PARTS": "kafka,topics",
            "MILENA_ACCOUNTS_MESSAGES_MAX_PAID": "1000000",
            "MILENA_ACCOUNTS_SLOTS_MAX_PAID": "8",
        }
        stack = FreshStack(Path(folder), env)
        say("starting a broker of its own")
        stack.start()
        try:
            return _measure(stack, lives_a_user, say)
        finally:
            stack.stop()


def _measure(stack: FreshStack, lives_a_user: int, say: Say) -> tuple[Rate, Rate]:
    bootstrap = f"127.0.0.1:{stack.base + 10}"
    say(f"folding {RETAINED} requests for each of {USERS} users")
    names = users(USERS)
    machine = MACHINES["accounts"](stack.env)
    states = retained(machine, names, RETAINED, wall_ms())
    raw = {key: msgspec.msgpack.encode(state) for key, state in states.items()}
    changelog = CHANGELOGS["accounts"].name
    _preload(bootstrap, machine.next_deadline, states, raw)
    backlog = [(key, wire.encode(told)) for key, told in rounds(names, RETAINED, lives_a_user)]
    assert len(backlog) == USERS * STEPS * lives_a_user
    _append(bootstrap, backlog)
    wanted, base = len(backlog), _records_in(bootstrap, changelog)
    say(f"Milena: {wanted} decisions")
    with Instance(stack, "accounts", "accounts-0") as process:
        _folding(process)
        ours = _time("Milena", process, bootstrap, changelog, base, wanted)
    say(f"stock Faust: {wanted} decisions")
    with _Stock(stack, bootstrap, raw) as other:
        _folding(other)
        stock = _time("stock Faust", other, bootstrap, f"{APP}-state-changelog", 0, wanted)
    return ours, stock


def _preload(
    bootstrap: str,
    next_deadline: Callable[[Any], int | None],
    states: dict[str, msgspec.Struct],
    raw: dict[str, bytes],
) -> None:
    """The machine's changelog as if it had folded these states."""
    partitions = ACCOUNTS_INBOX.ring.partitions(local=True)
    inbox_id = topic_id(bootstrap, ACCOUNTS_INBOX)
    records = {
        marks.key_of(one): marks.encode(marks.first(inbox_id, rules=1)) for one in range(partitions)
    }
    for key, state in states.items():
        # Below every place of the backlog: life 0 was before the first.
        kept: Stored[Any] = Stored(seq_at(0, 1), 1, wall_ms() - 60_000, (), state)
        records[key.encode()] = stored.encode(kept, raw[key], next_deadline(state))
    placed = ((key, value, changelog_partition(key, partitions)) for key, value in records.items())
    _produce(bootstrap, CHANGELOGS["accounts"].name, placed)


def _append(bootstrap: str, backlog: list[tuple[str, bytes]]) -> None:
    partitions = ACCOUNTS_INBOX.ring.partitions(local=True)
    placed = ((key.encode(), value, partition_of(key, partitions)) for key, value in backlog)
    _produce(bootstrap, ACCOUNTS_INBOX.name, placed)


def _produce(bootstrap: str, topic: str, records: Iterable[tuple[bytes, bytes, int]]) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "queue.buffering.max.messages": 1_000_000,
            "linger.ms": 20,
            "log_level": 0,
        }
    )
    for key, value, partition in records:
        producer.produce(topic, key=key, value=value, partition=partition)
    left = producer.flush(60)
    assert left == 0, f"{left} records of {topic} did not reach the broker"


class _Stock(Beside):
    """Stock Faust over the same states; it says on its output that it folds."""

    def __init__(self, stack: FreshStack, bootstrap: str, raw: dict[str, bytes]) -> None:
        states = stack.data / "states.msgpack"
        kept = {key.encode(): value for key, value in raw.items()}
        states.write_bytes(msgspec.msgpack.encode(kept))
        command = [sys.executable, "-m", "ops.bench.stock_faust", bootstrap, str(states)]
        command.append(str(stack.data / "stock"))
        super().__init__(command, stack.env, 0, stack.data / "stock.log")

    @property
    def ready(self) -> bool:
        return READY in self.log.read_text(errors="replace")


def _folding(process: Beside) -> None:
    process.start()
    if not process.came(READY_S_MAX):
        told = process.log.read_text(errors="replace")[-2_000:]
        raise DidNotCome(f"it did not get ready:\n{told}")


def _time(
    name: str,
    process: Beside,
    bootstrap: str,
    changelog: str,
    base: int,
    wanted: int,
) -> Rate:
    """From now until `wanted` state records stand behind the first `base` in the changelog."""
    meter = psutil.Process(process.pid)
    before, began_s = meter.cpu_times(), time.monotonic()
    while (done := _records_in(bootstrap, changelog) - base) < wanted:
        if not process.running or time.monotonic() - began_s > FOLD_S_MAX:
            raise RuntimeError(f"{name} folded {done} of {wanted} and then no more")
        time.sleep(_LOOK_S)
    after, wall_s = meter.cpu_times(), time.monotonic() - began_s
    cpu_s = after.user + after.system - before.user - before.system
    return Rate(name=name, decisions=wanted, wall_s=wall_s, cpu_s=cpu_s)


def _records_in(bootstrap: str, topic: str) -> int:
    """Sum of the end offsets; 0 where the topic is not there yet."""
    reader = new_consumer(bootstrap, "milena-bench")
    try:
        listed = reader.list_topics(topic, timeout=CALL_S_MAX).topics[topic]
        places = [TopicPartition(topic, partition) for partition in listed.partitions]
        return sum(bounds(reader, place)[1] for place in places)
    finally:
        reader.close()
