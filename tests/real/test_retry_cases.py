"""The client that asks again: one key is one answer and one message, however often it comes."""

import asyncio
import json
import random
from collections.abc import Iterator

import httpx2
import pytest

from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge
from schemas.generated.types import AdmissionKind, RunKind
from tests.real.client import Client, body_of, script
from tests.real.log import facts_of_user
from tests.real.test_bad_input import PATH
from tests.real.users import Users

pytestmark = pytest.mark.real
TIMES = 20


def spellings(content: str) -> Iterator[bytes]:
    """One request, written differently each time: order, blanks, escapes, numbers, defaults."""
    shuffled = random.Random(7)
    body = body_of(content, stream=False, temperature=1, max_output_tokens=100, stop=["never"])
    while True:
        names = list(body)
        shuffled.shuffle(names)
        again = {name: body[name] for name in names}
        if shuffled.random() < 0.5:
            again.pop("temperature")  # its value is the default
        if shuffled.random() < 0.5:
            again["stop"] = "never"
        text = json.dumps(
            again,
            indent=shuffled.choice([None, 0, 3]),
            separators=shuffled.choice([None, (",", ":"), (" ,\t", " :\n")]),
        )
        if shuffled.random() < 0.5:
            text = text.replace("word", "\\u0077\\u006frd")
        yield text.encode()


async def test_one_key_is_one_answer_over_two_edges(
    stack: FreshStack, second_edge: SecondEdge, users: Users
) -> None:
    user = await users.new()
    content = script(text="word by word by word", tokens_per_s=4)
    async with Client(stack.url, user.key) as here, Client(second_edge.url, user.key) as there:

        async def post(number: int, body: bytes) -> httpx2.Response:
            headers = {"Idempotency-Key": "one", "Content-Type": "application/json"}
            if number % 4 == 0:
                headers["Prefer"] = "reattach"
            client = there if number % 2 else here
            return await client.http.post(PATH, content=body, headers=headers)

        bodies = spellings(content)
        responses = await asyncio.gather(*(post(at, next(bodies)) for at in range(TIMES)))
        ids = {response.headers["x-generation-id"] for response in responses}
        assert len(ids) == 1
        for response in responses:
            if response.status_code == 200:
                assert response.json()["output"][0]["text"] == "word by word by word"
            else:
                error = response.json()["error"]
                assert (response.status_code, error["code"]) == (409, "generation_in_progress")
                assert {error["details"]["generation_id"]} == ids
                assert response.headers["x-should-retry"] == "false"
        attached = [r for at, r in enumerate(responses) if at % 4 == 0]
        assert {response.status_code for response in attached} == {200}

        for client in (here, there):
            changed = await client.once(content.replace("word", "ward"), idempotency_key="one")
            assert changed.status_code == 409
            assert changed.json()["error"]["code"] == "idempotency_conflict"
            assert changed.headers["x-should-retry"] == "false"
            again = await client.http.post(
                PATH, content=next(bodies), headers={"Idempotency-Key": "one"}
            )
            assert again.headers["idempotent-replayed"] == "true"
            assert {again.json()["id"]} == ids
            assert again.json()["output"][0]["text"] == "word by word by word"
        used = [limit["used"] for limit in (await here.limits()).values() if limit["window_s"]]
        assert used == [1]
    facts = await asyncio.to_thread(facts_of_user, stack, user.user_id)
    kinds = [fact.kind for fact in facts.admission]
    assert kinds.count(AdmissionKind.ADMITTED) == 1
    assert kinds.count(AdmissionKind.CONFLICT) == 2
    assert set(kinds) == {AdmissionKind.ADMITTED, AdmissionKind.REPEATED, AdmissionKind.CONFLICT}
    assert [fact.kind for fact in facts.runs].count(RunKind.QUEUED) == 1
    assert len(facts.usage) == 1
