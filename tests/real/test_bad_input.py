"""Bad input: each with its typed error, and nothing changed, in no counter and on no topic."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from connectors.store.keys import mint
from ops.stack.fresh import FreshStack
from tests.real.client import Client, body_of, script
from tests.real.log import dead_letters
from tests.real.raw import Reply, chunked, exchange, filler, head
from tests.real.views import nothing_moves

pytestmark = pytest.mark.real
PATH = "/v1/generations"
UNKNOWN = "gen_01JDYYYYYYYYYYYYYYYYYYYYYY"
GOOD = json.dumps(body_of("hi", stream=False)).encode()


@pytest.fixture(scope="module", autouse=True)
def _no_dead_letters(stack: FreshStack) -> Iterator[None]:
    before = dead_letters(stack)
    yield
    assert dead_letters(stack) == before


def check_refusal(reply: Any, status: int, code: str, param: str | None = None) -> None:
    """One shape for every error, with the request's id, and nothing of how we are made."""
    if isinstance(reply, Reply):
        found, shown, body = reply.status, reply.headers, reply.body.decode()
    else:
        found, shown, body = reply.status_code, reply.headers, reply.text
    assert found == status, body
    assert shown["content-type"] == "application/json"
    document = json.loads(body)
    error = document["error"]
    assert set(document) == {"error"}
    assert set(error) == {"code", "message", "retryable", "request_id", "details"}
    assert error["code"] == code
    assert error["retryable"] is False
    if param is not None:
        assert error["details"]["param"] == param
        assert error["message"].startswith(f"{param}: ")
    for word in ("Traceback", "Error", "msgspec", "edge/", ".py"):
        assert word not in body


def with_key(client: Client, idempotency_key: bytes, body: bytes = GOOD) -> bytes:
    """A whole request whose Idempotency-Key may be any bytes."""
    authorization = client.http.headers["authorization"].encode()
    headers = [
        ("Authorization", authorization),
        ("Idempotency-Key", idempotency_key),
        ("Content-Length", str(len(body)).encode()),
    ]
    return head("POST", PATH, headers) + body


async def post(client: Client, content: bytes) -> Any:
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    return await client.http.post(PATH, content=content, headers=headers)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", PATH),
        ("GET", f"{PATH}/{UNKNOWN}"),
        ("GET", f"{PATH}/{UNKNOWN}/stream"),
        ("POST", f"{PATH}/{UNKNOWN}/cancel"),
        ("GET", "/v1/limits"),
    ],
)
async def test_no_key_and_a_key_of_nobody(stack: FreshStack, method: str, path: str) -> None:
    foreign = mint(b"f" * 24)
    for given in (None, b"Bearer mk_unknown", b"Basic x", b"Bearer " + foreign.encode()):
        headers = [] if given is None else [("Authorization", given)]
        headers += [("Idempotency-Key", b"k"), ("Content-Length", b"%d" % len(GOOD))]
        reply = await exchange(stack.url, head(method, path, headers) + GOOD)
        check_refusal(reply, 401, "unauthorized")
        assert reply.headers["www-authenticate"] == 'Bearer realm="milena"'


async def test_a_body_over_the_limit(stack: FreshStack, ann: Client) -> None:
    """Told by its length it is refused unread, without one as soon as it is too long."""
    async with nothing_moves(ann):
        long = json.dumps(body_of("x" * 1_048_576)).encode()
        check_refusal(await post(ann, long), 413, "payload_too_large")
        first = head(
            "POST",
            PATH,
            [
                ("Authorization", ann.http.headers["authorization"].encode()),
                ("Idempotency-Key", b"k"),
                ("Transfer-Encoding", b"chunked"),
            ],
        )
        reply = await exchange(stack.url, first, chunked(filler(2 * 1_048_576)))
        check_refusal(reply, 413, "payload_too_large")  # though the body is not over


RAW = b'{"model":"scripted","messages":[{"role":"user","content":"hi"}]%s}'


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"", "body"),
        (b"model=scripted", "body"),
        (b"[]", "body"),
        (b'{"model":"scripted","messages":[{"role":"user","con', "body"),
        (RAW % b',"n":2', "n"),
        (RAW % b',"tools":[]', "tools"),
        (b'{"messages":[{"role":"user","content":"hi"}]}', "model"),
        (b'{"model":"gpt-9","messages":[{"role":"user","content":"hi"}]}', "model"),
        (b'{"model":"scripted"}', "messages"),
        (b'{"model":"scripted","messages":[]}', "messages"),
        (b'{"model":"scripted","messages":[{"role":"system","content":"x"}]}', "messages[0].role"),
        (b'{"model":"scripted","messages":[{"role":"tool","content":"x"}]}', "messages[0].role"),
        (b'{"model":"scripted","messages":[{"role":"USER","content":"x"}]}', "messages[0].role"),
        (b'{"model":"scripted","messages":[{"role":"assistant","content":"x"}]}', "messages[0].role"),
        (RAW % b',"temperature":NaN', "body"),
        (RAW % b',"top_p":-Infinity', "body"),
        (RAW % b',"max_output_tokens":0', "max_output_tokens"),
        (RAW % b',"max_output_tokens":1000000', "max_output_tokens"),
        (RAW % b',"stop":"\xc3\x28"', "body"),
        (b"\xff\xfe{}", "body"),
        (RAW % b',"stop":"\\ud800"', "stop"),
        (b'{"model":"scripted","messages":[{"role":"user","content":"\\udc00"}]}', "messages[0].content"),
    ],
)  # fmt: skip
async def test_a_body_that_cannot_be_served(ann: Client, body: bytes, param: str) -> None:
    async with nothing_moves(ann):
        check_refusal(await post(ann, body), 400, "invalid_request", param)


@pytest.mark.parametrize(
    "key",
    [b"", b"x" * 256, b"x" * 300, b"a b", b"a\tb", b"a\x01b", b"a\x7fb", "clé".encode(), b"a\xffb"],
)
async def test_an_idempotency_key_that_is_none(stack: FreshStack, ann: Client, key: bytes) -> None:
    async with nothing_moves(ann):
        reply = await exchange(stack.url, with_key(ann, key))
        check_refusal(reply, 400, "invalid_request")


async def test_an_idempotency_key_missing_or_given_twice(stack: FreshStack, ann: Client) -> None:
    async with nothing_moves(ann):
        missing = await ann.http.post(PATH, content=GOOD)
        check_refusal(missing, 400, "invalid_request", "Idempotency-Key")
        twice = with_key(ann, b"a\r\nIdempotency-Key: b")
        check_refusal(await exchange(stack.url, twice), 400, "invalid_request", "Idempotency-Key")


async def test_the_longest_idempotency_key_is_one(stack: FreshStack, ann: Client) -> None:
    reply = await exchange(stack.url, with_key(ann, bytes(range(0x21, 0x7F)) * 2 + b"x" * 67))
    assert reply.status == 200


async def test_paths_and_methods_that_are_none(ann: Client) -> None:
    async with nothing_moves(ann):
        for method, path, status, code in (
            ("GET", "/v1/nothing", 404, "not_found"),
            ("GET", f"{PATH}/{UNKNOWN}", 404, "not_found"),
            ("GET", f"{PATH}/{UNKNOWN}/stream", 404, "not_found"),
            ("POST", f"{PATH}/{UNKNOWN}/cancel", 404, "not_found"),
            ("GET", f"{PATH}/%00%ff", 404, "not_found"),
            ("DELETE", PATH, 405, "method_not_allowed"),
            ("PUT", f"{PATH}/{UNKNOWN}/cancel", 405, "method_not_allowed"),
        ):
            check_refusal(await ann.http.request(method, path), status, code)


async def test_after_all_that_the_next_request_is_served(ann: Client) -> None:
    assert (await ann.ask(script(text="still here"))).text == "still here"
