"""Bad input over HTTP: each with its typed error, and nothing moved."""

import asyncio
import gzip
import json
from typing import Any

import pytest

from connectors.store.keys import mint
from edge import respond
from tests.edge.client import ANN, BEN, ask, names, question, raw_exchange, reread
from tests.edge.world import World, running

UNKNOWN = "gen_00000000000000000000000000"


def check_error(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    document = response.json()
    assert list(document) == ["error"]
    error: dict[str, Any] = document["error"]
    assert set(error) == {"code", "message", "retryable", "request_id", "details"}
    assert error["code"] == code
    assert error["request_id"] == response.headers["x-request-id"]
    return error


async def post(world: World, **more: Any) -> Any:
    given: dict[str, Any] = {"json": question(), "headers": world.headers(idempotency="k")}
    return await world.client.post("/v1/generations", **(given | more))


async def test_keys_that_open_nothing(world: World) -> None:
    for value in (
        None,
        "",
        "Bearer",
        f"Basic {ANN}",
        f"Bearer {ANN}x",
        f"Bearer {ANN[:-1]}",
        f"Bearer {mint(b'z' * 24)}",
        "Bearer mk_" + "é" * 32,
    ):
        headers = {"idempotency-key": "k"}
        sent = headers if value is None else headers | {"authorization": value}
        encoded = {name: text.encode("latin-1") for name, text in sent.items()}
        response = await post(world, headers=encoded)
        check_error(response, 401, "unauthorized")
        assert response.headers["www-authenticate"] == 'Bearer realm="milena"'
    assert world.machines.sent == []


async def test_two_keys_are_none(world: World) -> None:
    headers = [("authorization", f"Bearer {ANN}"), ("authorization", f"Bearer {BEN}")]
    check_error(await post(world, headers=headers), 401, "unauthorized")


async def test_every_route_wants_a_key(world: World) -> None:
    for method, path in (
        ("POST", "/v1/generations"),
        ("GET", f"/v1/generations/{UNKNOWN}"),
        ("GET", f"/v1/generations/{UNKNOWN}/stream"),
        ("POST", f"/v1/generations/{UNKNOWN}/cancel"),
        ("GET", "/v1/limits"),
    ):
        check_error(await world.client.request(method, path), 401, "unauthorized")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (question(temperature=9), "temperature"),
        (question(n=2), "n"),
        (question(max_output_tokens=1_000_000), "max_output_tokens"),
        (question() | {"model": "gpt-9"}, "model"),
        (question() | {"messages": []}, "messages"),
    ],
)
async def test_bad_bodies(world: World, body: Any, param: str) -> None:
    error = check_error(await post(world, json=body), 400, "invalid_request")
    assert error["details"]["param"] == param
    assert error["retryable"] is False
    assert world.machines.sent == []


@pytest.mark.parametrize("key", ["", "x" * 300, "a\tb", "a b"])
async def test_bad_idempotency_keys(world: World, key: str) -> None:
    error = check_error(
        await post(world, headers=world.headers(idempotency=key)), 400, "invalid_request"
    )
    assert error["details"]["param"] == "Idempotency-Key"


async def test_no_idempotency_key(world: World) -> None:
    error = check_error(await post(world, headers=world.headers()), 400, "invalid_request")
    assert error["details"]["param"] == "Idempotency-Key"
    assert world.machines.sent == []


async def test_a_model_the_tier_may_not_use(redis: Any) -> None:
    async with running(redis.url, free_models="small") as world:
        error = check_error(await post(world), 403, "model_not_allowed")
        assert error["details"] == {"allowed": ["small"]}
        async with ask(world, question(), key=BEN) as stream:
            assert stream.response.status_code == 200


async def test_a_prompt_over_the_context(world: World) -> None:
    room = 65_536
    for words, status in ((room - 1, 200), (room, 400), (room + 1, 400)):
        body = question("w " * words)
        async with ask(world, body, idempotency=f"k{words}") as stream:
            assert stream.response.status_code == status
            if status == 400:
                error = json.loads(await stream.response.aread())["error"]
                assert error["details"]["context_tokens_max"] == room
                assert error["details"]["input_tokens"] == words
    (submit,) = world.machines.submits()
    assert (submit.spec.input_tokens, submit.spec.output_tokens_max) == (room - 1, 1)


async def test_every_post_survives_odd_bodies(world: World) -> None:
    async with ask(world, question(), idempotency="own") as stream:
        generation_id = stream.generation_id
        sent_before = len(world.machines.sent)
        for path in ("/v1/generations", f"/v1/generations/{generation_id}/cancel"):
            for content, headers, status in (
                (b"[" * 20_000, {}, 400),
                (b'{"model":"a","model":"b"}', {}, 400),
                (b"\xff\xfe\x00", {}, 400),
                (b"\xef\xbb\xbf{}", {}, 400),
                (gzip.compress(b"x" * 10_000_000), {"content-encoding": "gzip"}, 415),
                (b"x" * 1_048_577, {}, 413),
            ):
                response = await world.client.post(
                    path, content=content, headers=world.headers(idempotency="k") | headers
                )
                code = "payload_too_large" if status == 413 else "invalid_request"
                check_error(response, status, code)
        assert len(world.machines.sent) == sent_before
        await world.whole(generation_id, "still here")
        assert names(await stream.rest())[-1] == "completed"


async def test_a_body_without_a_length_is_refused_at_the_bound(world: World) -> None:
    sent = 0

    async def chunks() -> Any:
        nonlocal sent
        for _ in range(480):
            sent += 65_536
            yield b"x" * 65_536

    async with asyncio.timeout(10):
        response = await post(world, json=None, content=chunks())
    error = check_error(response, 413, "payload_too_large")
    assert error["details"] == {"body_bytes_max": 1_048_576}
    assert world.parts.bodies.bytes_held == 0


async def test_a_body_that_trickles(redis: Any) -> None:
    async with running(redis.url, body_wait_s_max=0.3) as world:
        head = (
            "POST /v1/generations HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n"
            f"authorization: Bearer {ANN}\r\nidempotency-key: k\r\n\r\n"
        )
        got = await raw_exchange(world.port, head.encode() + b'{"mod')
        assert got.startswith(b"HTTP/1.1 408")
        error = json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]
        assert (error["code"], error["retryable"]) == ("invalid_request", True)
        assert world.parts.bodies.bytes_held == 0


async def test_bodies_in_work_are_bounded_together(redis: Any) -> None:
    async with running(redis.url, bodies_bytes_total_max=1_000) as world:
        check_error(await post(world, content=b"x" * 1_001, json=None), 503, "capacity_exhausted")


async def test_paths_and_methods_that_are_not_there(world: World) -> None:
    check_error(await world.client.get("/nothing"), 404, "not_found")
    check_error(await world.client.get("/v1/generations/"), 404, "not_found")
    response = await world.client.delete("/v1/generations")
    check_error(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"


async def test_what_is_no_http(world: World) -> None:
    got = await raw_exchange(world.port, b"\x16\x03\x01 nonsense\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400")
    assert json.loads(got.split(b"\r\n\r\n", 1)[1])["error"]["code"] == "invalid_request"
    long = b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000 + b"\r\n\r\n"
    assert (await raw_exchange(world.port, long)).startswith(b"HTTP/1.1 400")


async def test_a_fault_shows_its_request_id_and_nothing_else(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("the canary sings")

    monkeypatch.setattr(respond, "limit_headers", broken)
    error = check_error(await post(world), 500, "internal")
    assert error["details"] == {}
    logged = "".join(capfd.readouterr())
    assert error["request_id"] in logged
    assert "canary" not in logged + json.dumps(error)
    monkeypatch.undo()
    async with ask(world, question()) as stream:
        assert stream.response.status_code == 200


async def test_a_foreign_generation_is_an_unknown_one(world: World) -> None:
    async with ask(world, question()) as stream:
        generation_id = stream.generation_id
        await world.open(generation_id)
        await world.say(generation_id, "hers")
        sent_before = len(world.machines.sent)
        bodies = set()
        for name in (generation_id, UNKNOWN, "gen_short", "msg_" + generation_id[4:], "%00"):
            for method, path in (("GET", ""), ("GET", "/stream"), ("POST", "/cancel")):
                response = await world.client.request(
                    method, f"/v1/generations/{name}{path}", headers=world.headers(BEN)
                )
                error = check_error(response, 404, "not_found")
                error.pop("request_id")
                bodies.add(json.dumps(error))
        assert len(bodies) == 1
        assert len(world.machines.sent) == sent_before
        await world.end(generation_id)
        assert names(await stream.rest())[-1] == "completed"
        async with reread(world, generation_id, key=BEN) as foreign:
            assert foreign.response.status_code == 404


async def test_equal_keys_of_two_users_never_meet(world: World) -> None:
    async with (
        ask(world, question(), idempotency="same") as one,
        ask(world, question(), idempotency="same", key=BEN) as other,
    ):
        assert one.generation_id != other.generation_id
    first, second = world.machines.submits()
    assert first.identity != second.identity
    assert first.spec.runs_key != second.spec.runs_key
