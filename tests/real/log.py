"""What the log says of one generation or one user, as an analyst would read it."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ops.log_scan import records
from ops.stack.fresh import FreshStack
from schemas.generated.types import AdmissionFact, RunFact, SettlementFact, UsageFact
from topics import wire
from topics.errors import InvalidRecord
from topics.registry import DEAD_LETTERS, FACTS_ADMISSION, FACTS_RUNS, FACTS_SETTLEMENT, FACTS_USAGE
from topics.topic import Topic

_TYPES: dict[str, type[Any]] = {
    FACTS_ADMISSION.name: AdmissionFact,
    FACTS_SETTLEMENT.name: SettlementFact,
    FACTS_RUNS.name: RunFact,
    FACTS_USAGE.name: UsageFact,
}
LOOK_BACK_MS = 10 * 60_000
COME_S_MAX = 20.0
LOOK_S = 0.2


class Facts(msgspec.Struct):
    """Facts in the order of the log, each once (consumers dedupe by event id)."""

    admission: list[AdmissionFact] = []
    settlement: list[SettlementFact] = []
    runs: list[RunFact] = []
    usage: list[UsageFact] = []


def facts_of(stack: FreshStack, generation_id: str) -> Facts:
    """One generation's facts, of the last ten minutes."""
    return _facts(stack, lambda fact: fact.generation_id == generation_id)


def facts_of_user(stack: FreshStack, user_id: str) -> Facts:
    """All facts of one user, of the last ten minutes."""
    return _facts(stack, lambda fact: fact.user_id == user_id)


async def facts_once(
    stack: FreshStack, generation_id: str, holds: Callable[[Facts], bool]
) -> Facts:
    """One generation's facts, read again until they are as awaited: facts come after answers."""
    deadline = time.monotonic() + COME_S_MAX
    while True:
        found = await asyncio.to_thread(facts_of, stack, generation_id)
        if holds(found):
            return found
        assert time.monotonic() < deadline, f"facts are not complete: {found}"
        await asyncio.sleep(LOOK_S)


def dead_letters(stack: FreshStack) -> int:
    """How many records were ever put aside."""
    return sum(1 for _ in records(_bootstrap(stack), DEAD_LETTERS.values(), 0))


def decoded(stack: FreshStack, topic: Topic, kind: type[Any]) -> list[tuple[str, Any]]:
    """Key and value of each readable record of one topic, of the last ten minutes."""
    found: list[tuple[str, Any]] = []
    for record in records(_bootstrap(stack), [topic], _since_ms()):
        with contextlib.suppress(InvalidRecord):  # poison that other tests put there
            found.append((record.key, wire.decode(kind, record.value)))
    return found


def _facts(stack: FreshStack, wanted: Callable[[Any], bool]) -> Facts:
    found, seen = Facts(), set[str]()
    by_type: dict[type[Any], list[Any]] = {
        AdmissionFact: found.admission,
        SettlementFact: found.settlement,
        RunFact: found.runs,
        UsageFact: found.usage,
    }
    topics: Iterable[Topic] = (FACTS_ADMISSION, FACTS_SETTLEMENT, FACTS_RUNS, FACTS_USAGE)
    for record in records(_bootstrap(stack), topics, _since_ms()):
        fact = wire.decode(_TYPES[record.topic], record.value)
        if wanted(fact) and fact.event_id not in seen:
            seen.add(fact.event_id)
            by_type[type(fact)].append(fact)
    return found


def _bootstrap(stack: FreshStack) -> str:
    return f"127.0.0.1:{stack.base + 10}"


def _since_ms() -> int:
    return int(time.time() * 1_000) - LOOK_BACK_MS
