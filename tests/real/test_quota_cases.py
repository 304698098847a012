"""The last message, thirty times at once: exactly what remains is admitted, at every step of the log."""

import asyncio
import signal
import uuid

import pytest
from confluent_kafka import Producer

from ops.log_scan import records
from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge
from schemas.generated.types import (
    AccountsInbox,
    AdmissionFact,
    AdmissionKind,
    SettlementFact,
    SettlementKind,
    Submit,
    Tier,
)
from tests.real.client import Answer, Client, script
from tests.real.log import Facts, facts_of_user
from tests.real.users import User, Users
from tests.real.views import standing, until_free
from topics import wire
from topics.registry import ACCOUNTS_INBOX

pytestmark = pytest.mark.real
MESSAGES_MAX, SLOTS_MAX, AT_ONCE = 40, 2, 30
ONE = script(words=1)


def check_every_step(facts: Facts) -> None:
    """The law of accounts, on what it told: never more than the limit, each hold ended once."""
    steps: list[AdmissionFact | SettlementFact] = [*facts.admission, *facts.settlement]
    for fact in steps:
        assert fact.used + fact.held <= fact.limit == MESSAGES_MAX
        assert 0 <= fact.slots_used <= SLOTS_MAX
    admitted = [f.generation_id for f in facts.admission if f.kind is AdmissionKind.ADMITTED]
    assert len(admitted) == len(set(admitted))
    for kind in (SettlementKind.CONSUMED, SettlementKind.SETTLED):
        ended = [fact.generation_id for fact in facts.settlement if fact.kind is kind]
        assert sorted([*ended, *released(facts)]) == sorted(admitted)


def released(facts: Facts) -> list[str]:
    """Generations whose hold was given back: nobody waited any more for their late start."""
    kind = SettlementKind.RELEASED
    return [fact.generation_id for fact in facts.settlement if fact.kind is kind]


async def spend(clients: tuple[Client, ...], count: int) -> None:
    """Uses so many messages, as many at once as there are slots."""

    async def one(client: Client) -> None:
        nonlocal count
        while count > 0:
            count -= 1
            answer = await client.ask(ONE)
            if answer.status != 200:
                assert answer.error["code"] == "concurrency_limited", answer.error
                count += 1  # its slot comes back in a moment
                await asyncio.sleep(0.05)

    await asyncio.gather(*(one(client) for client in clients))


async def test_of_thirty_at_once_exactly_the_last_one_is_admitted(
    stack: FreshStack, second_edge: SecondEdge, users: Users
) -> None:
    user = await users.new(Tier.FREE)
    async with Client(stack.url, user.key) as here, Client(second_edge.url, user.key) as there:
        await spend((here, there), MESSAGES_MAX - 1)
        await until_free(here)
        keys = [uuid.uuid4().hex for _ in range(AT_ONCE)]
        answers = await asyncio.gather(
            *((there if at % 2 else here).ask(ONE, idempotency_key=key) for at, key in enumerate(keys))
        )  # fmt: skip
        assert sorted(answer.status for answer in answers) == [200] + [429] * (AT_ONCE - 1)
        refused = [answer for answer in answers if answer.status == 429]
        assert {answer.error["code"] for answer in refused} == {"quota_exhausted"}
        await until_free(here)
        await _a_refusal_is_bound_to_its_key(here, there, keys, answers)
        before = await standing(here)
        await asyncio.to_thread(_deliver_again, stack, user)
        assert await standing(there) == before, "a second delivery decides nothing again"
    facts = await asyncio.to_thread(facts_of_user, stack, user.user_id)
    kinds = [fact.kind for fact in facts.admission]
    assert kinds.count(AdmissionKind.ADMITTED) == MESSAGES_MAX
    check_every_step(facts)


async def test_of_thirty_at_once_one_is_admitted_though_accounts_dies_meanwhile(
    stack: FreshStack, second_edge: SecondEdge, users: Users
) -> None:
    user = await users.new(Tier.FREE)
    async with Client(stack.url, user.key) as here, Client(second_edge.url, user.key) as there:

        async def decided(at: int) -> str | None:
            """The generation this key got, asked for as long as the answer is a retryable one."""
            key = f"key-{at}"
            while True:
                answer = await (there if at % 2 else here).ask(ONE, idempotency_key=key)
                if answer.status == 200:
                    return answer.generation_id
                code = answer.error["code"]
                if not answer.error["retryable"] and code != "generation_in_progress":
                    assert code == "quota_exhausted"
                    return None
                await asyncio.sleep(0.1)

        await spend((here, there), MESSAGES_MAX - 1)
        await until_free(here)
        asked = [asyncio.create_task(decided(at)) for at in range(AT_ONCE)]
        await asyncio.sleep(0)  # all of them begin
        pid = stack.hurt("accounts", signal.SIGKILL)
        admitted = [found for found in await asyncio.gather(*asked) if found is not None]
        assert len(admitted) == 1
        await asyncio.to_thread(stack.back, "accounts", pid)
        await asyncio.to_thread(stack.serving)
        await until_free(here)
    facts = await asyncio.to_thread(facts_of_user, stack, user.user_id)
    kinds = [fact.kind for fact in facts.admission]
    assert kinds.count(AdmissionKind.ADMITTED) == MESSAGES_MAX + len(released(facts))
    check_every_step(facts)


async def _a_refusal_is_bound_to_its_key(
    here: Client, there: Client, keys: list[str], answers: list[Answer]
) -> None:
    """Asked again, a spent quota says the same, and says it will go on saying so."""
    for client in (here, there):
        for key, answer in zip(keys[:6], answers[:6], strict=True):
            again = await client.ask(ONE, idempotency_key=key)
            assert again.status == answer.status
            if answer.status == 200:
                assert again.generation_id == answer.generation_id
                continue
            assert again.error["code"] == "quota_exhausted"
            assert again.error["details"] == answer.error["details"]
            assert again.headers["x-should-retry"] == "false"


def _deliver_again(stack: FreshStack, user: User) -> None:
    """Every Submit of the user once more, byte by byte, as a producer that retries would."""
    bootstrap = f"127.0.0.1:{stack.base + 10}"
    producer = Producer({"bootstrap.servers": bootstrap})
    submits = [
        record
        for record in records(bootstrap, [ACCOUNTS_INBOX], 0)
        if record.key == user.user_id
        and isinstance(wire.decode(AccountsInbox, record.value).body, Submit)
    ]
    assert len(submits) >= MESSAGES_MAX + AT_ONCE - 1
    for record in submits:
        producer.produce(record.topic, record.value, record.key, partition=record.partition)
    assert producer.flush(10) == 0


async def test_of_thirty_at_once_a_new_user_gets_as_many_as_there_are_slots(
    stack: FreshStack, second_edge: SecondEdge, users: Users
) -> None:
    user = await users.new(Tier.FREE)
    held = script(words=200, tokens_per_s=40)
    async with Client(stack.url, user.key) as here, Client(second_edge.url, user.key) as there:

        async def ask(client: Client) -> Answer:
            async with client.streaming(held) as (answer, events):
                async for event in events:
                    if event.event == "generation.text.delta":
                        await decided.wait()
                        await client.cancel(answer.generation_id)
            return answer

        decided = asyncio.Event()
        asked = [asyncio.create_task(ask(there if at % 2 else here)) for at in range(AT_ONCE)]
        refused: list[Answer] = []
        for done in asyncio.as_completed(asked):
            refused.append(await done)
            if len(refused) == AT_ONCE - SLOTS_MAX:
                decided.set()
        admitted = [answer for answer in refused if answer.status == 200]
        assert len(admitted) == SLOTS_MAX
        assert {a.error["code"] for a in refused if a.status != 200} == {"concurrency_limited"}
        await until_free(here)
        assert (await here.ask(ONE)).status == 200
    facts = await asyncio.to_thread(facts_of_user, stack, user.user_id)
    check_every_step(facts)
