"""Somebody else's stream: with an id alone nobody reads, stops or even notices it, at any edge."""

import asyncio
from typing import Any

import httpx2
import psutil
import pytest

from ops.stack.fresh import FreshStack
from ops.stack.second_edge import SecondEdge
from schemas.generated.types import Claim, Closed, Finished, RunsInbox, Start
from tests.real.client import Client, drain, script
from tests.real.log import decoded
from tests.real.test_bad_input import PATH
from tests.real.users import Users
from tests.real.views import nothing_moves, one_story
from tests.real.waiting import until_so
from topics.registry import RUNS_INBOX

pytestmark = pytest.mark.real
UNKNOWN = (
    "gen_01JDYYYYYYYYYYYYYYYYYYYYYY",
    "gen_short",
    "msg_01JDYYYYYYYYYYYYYYYYYYYYYY",
    "%2e%2e",
)
DOORS = (("GET", ""), ("GET", "/stream"), ("POST", "/cancel"))


async def answers(client: Client, generation_id: str) -> list[tuple[Any, ...]]:
    """What each route says of an id, but for the request's own id."""
    found = []
    for method, door in DOORS:
        response = await client.http.request(method, f"{PATH}/{generation_id}{door}")
        error = response.json()["error"]
        assert error.pop("request_id")
        kept = {name for name in response.headers if name not in ("date", "x-request-id")}
        found.append((response.status_code, error, kept))
    return found


async def test_a_foreign_id_is_an_unknown_id_at_every_edge(
    stack: FreshStack, second_edge: SecondEdge, users: Users, ann: Client
) -> None:
    content = script(words=120, tokens_per_s=40)
    ben_key = (await users.new()).key
    async with (
        Client(stack.url, ben_key) as ben,
        Client(second_edge.url, ben_key) as ben_elsewhere,
        ann.streaming(content, idempotency_key="shared") as (answer, events),
    ):
        reading = asyncio.create_task(drain(events))
        await until_so(lambda: "text.delta" in answer.names)
        for client in (ben, ben_elsewhere):
            async with nothing_moves(client):
                foreign = await answers(client, answer.generation_id)
                assert [status for status, _, _ in foreign] == [404, 404, 404]
                for unknown in UNKNOWN:
                    assert await answers(client, unknown) == foreign
        own = await ben.ask(content, idempotency_key="shared", max_output_tokens=3)
        assert own.generation_id != answer.generation_id, "equal keys of two users never meet"
        assert own.terminal.event == "generation.completed"
        await reading
    assert answer.terminal.event == "generation.completed"
    assert len(answer.text.split()) == 120
    heard = await asyncio.to_thread(decoded, stack, RUNS_INBOX, RunsInbox)
    (runs_key,) = {
        key
        for key, event in heard
        if isinstance(event.body, Claim) and event.body.generation_id == answer.generation_id
    }
    on_her_key = [type(event.body) for key, event in heard if key == runs_key]
    assert set(on_her_key) <= {Start, Claim, Finished, Closed}, "nobody asked or told anything"
    await one_story(stack, ann, answer)


async def test_the_operator_port_serves_no_user_and_only_this_machine(
    stack: FreshStack, second_edge: SecondEdge, ann: Client
) -> None:
    answer = await ann.ask(script(words=3))
    authorization = {"Authorization": ann.http.headers["authorization"]}
    async with httpx2.AsyncClient(headers=authorization) as http:
        for operator_url in (stack.operator_url, second_edge.operator_url):
            for method, door in (*DOORS, ("POST", "")):
                path = f"{operator_url}{PATH}/{answer.generation_id}{door}"
                response = await http.request(method, path)
                assert response.status_code in (404, 405, 501)
                assert answer.text not in response.text
    for pid in (stack.part("edge").pid, second_edge.pid):
        listening = [
            connection.laddr.ip
            for connection in psutil.Process(pid).net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        ]
        assert set(listening) == {"127.0.0.1"}
