"""GET of a generation, cancel and limits: which source tells what."""

from typing import Any

import pytest

from edge.limits import iso
from schemas.generated.types import (
    Code,
    Hold,
    Limit,
    LimitKind,
    Phase,
    Refused,
    Stop,
    StopReason,
    Terminal,
    Usage,
)
from tests.edge.client import BEN, ask, question
from tests.edge.machines import MESSAGES, NOW_MS, RESET_MS, SLOTS, status, unknown
from tests.edge.world import World
from topics.registry import RUNS_INBOX


async def started(world: World) -> str:
    async with ask(world, question()) as stream:
        return stream.generation_id


async def look(world: World, generation_id: str) -> Any:
    return await world.client.get(f"/v1/generations/{generation_id}", headers=world.headers())


async def stop(world: World, generation_id: str) -> Any:
    path = f"/v1/generations/{generation_id}/cancel"
    return await world.client.post(path, headers=world.headers())


async def test_an_ended_one_is_told_by_its_row(world: World) -> None:
    generation_id = await started(world)
    await world.whole(generation_id, "all")
    sent_before = len(world.machines.sent)
    response = await look(world, generation_id)
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    assert response.json() == {
        "id": generation_id,
        "status": "completed",
        "hold": "consumed",
        "model": "scripted",
        "epoch": 2,
        "created_at": iso(NOW_MS),
        "usage": {"input_tokens": 3, "cached_input_tokens": 0, "output_tokens": 5},
        "output": [{"type": "text", "text": "all"}],
        "error": None,
    }
    assert len(world.machines.sent) == sent_before


async def test_a_failed_one_tells_why_and_what_was_shown(world: World) -> None:
    generation_id = await started(world)
    await world.open(generation_id)
    await world.say(generation_id, "part")
    await world.end(generation_id, Terminal.FAILED, code=Code.GENERATION_TIMEOUT)
    told = (await look(world, generation_id)).json()
    assert told["status"] == "failed"
    assert told["output"] == [{"type": "text", "text": "part"}]
    assert told["error"]["code"] == "generation_timeout"
    assert told["error"]["retryable"] is False


@pytest.mark.parametrize(
    ("phase", "more", "word"),
    [
        (Phase.QUEUED, {"hold": Hold.HELD}, "queued"),
        (Phase.RUNNING, {}, "running"),
        (Phase.RUNNING, {"stop_requested": True}, "cancel_requested"),
        (Phase.STOPPING, {"stop_requested": True}, "cancel_requested"),
        (Phase.ENDED, {"terminal": Terminal.COMPLETED}, "persisting"),
        (Phase.ENDED, {"terminal": Terminal.CANCELLED}, "cancel_requested"),
        (Phase.ENDED, {"terminal": Terminal.CANCELLED, "hold": Hold.RELEASED}, "cancelled"),
        (Phase.CLOSED, {"terminal": Terminal.COMPLETED}, "completed"),
        (Phase.CLOSED, {"terminal": Terminal.FAILED, "code": Code.CAPACITY_EXHAUSTED}, "failed"),
    ],
)
async def test_without_a_row_runs_is_asked(
    world: World, phase: Phase, more: dict[str, Any], word: str
) -> None:
    generation_id = await started(world)
    usage = Usage(input_tokens=1, cached_input_tokens=0, output_tokens=2)
    world.machines.always(status(generation_id, phase, **({"usage": usage} | more)))
    told = (await look(world, generation_id)).json()
    assert told["status"] == word
    assert told["hold"] == more.get("hold", Hold.CONSUMED).value
    assert told["output"] is None
    assert (told["error"] is None) == (word != "failed")


async def test_when_runs_is_silent_redis_tells(hasty: World) -> None:
    generation_id = await started(hasty)
    await hasty.open(generation_id)
    await hasty.say(generation_id, "x")
    hasty.machines.always(None)
    told = (await look(hasty, generation_id)).json()
    assert (told["status"], told["hold"], told["output"]) == ("running", "consumed", None)


async def test_when_nobody_knows_or_nobody_tells(hasty: World) -> None:
    generation_id = await started(hasty)
    hasty.machines.always(unknown(generation_id))
    assert (await look(hasty, generation_id)).status_code == 404
    hasty.machines.always(None)
    response = await look(hasty, generation_id)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "history_unavailable")
    hasty.store.away = True
    assert (await look(hasty, generation_id)).status_code == 503


async def test_a_stop_is_one_record_on_the_runs_key(world: World) -> None:
    generation_id = await started(world)
    for _ in range(2):
        response = await stop(world, generation_id)
        assert (response.status_code, response.json()) == (202, {"status": "cancel_requested"})
    stops = [sent for sent in world.machines.sent if isinstance(sent[2].body, Stop)]
    assert len(stops) == 2
    topic, key, value = stops[0]
    assert topic is RUNS_INBOX
    assert key == world.machines.submits()[0].spec.runs_key
    assert (value.body.user_id, value.body.reason) == ("usr_ann", StopReason.USER)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((Phase.ENDED, Terminal.CANCELLED, Hold.RELEASED), (200, "cancelled")),
        ((Phase.ENDED, Terminal.COMPLETED, Hold.CONSUMED), (200, "completed")),
        ((Phase.ENDED, Terminal.CANCELLED, Hold.CONSUMED), (202, "cancel_requested")),
        ((Phase.CLOSED, Terminal.CANCELLED, Hold.CONSUMED), (200, "cancelled")),
    ],
)
async def test_a_stop_that_finds_an_end(
    world: World, answer: tuple[Phase, Terminal, Hold], expected: tuple[int, str]
) -> None:
    generation_id = await started(world)
    phase, terminal, hold = answer
    world.machines.always(status(generation_id, phase, terminal=terminal, hold=hold))
    response = await stop(world, generation_id)
    assert (response.status_code, response.json()["status"]) == expected


async def test_a_stop_of_an_ended_one(world: World) -> None:
    generation_id = await started(world)
    await world.whole(generation_id, "all")
    response = await stop(world, generation_id)
    assert (response.status_code, response.json()) == (200, {"status": "completed"})


async def test_a_stop_without_an_answer(hasty: World) -> None:
    generation_id = await started(hasty)
    hasty.machines.always(None)
    assert (await stop(hasty, generation_id)).status_code == 202  # recorded, so it will be obeyed
    hasty.machines.acknowledges = False
    response = await stop(hasty, generation_id)
    assert response.status_code == 503
    assert response.json()["error"]["retryable"] is True
    hasty.machines.always(unknown(generation_id))
    assert (await stop(hasty, generation_id)).status_code == 404


async def test_a_stop_takes_no_parameters(world: World) -> None:
    generation_id = await started(world)
    path = f"/v1/generations/{generation_id}/cancel"
    for content, expected in ((b"{}", 202), (b" ", 202), (b'{"a":1}', 400)):
        response = await world.client.post(path, content=content, headers=world.headers())
        assert response.status_code == expected


async def test_limits(hasty: World) -> None:
    response = await hasty.client.get("/v1/limits", headers=hasty.headers())
    assert response.status_code == 200
    assert response.json() == {
        "limits": [
            {
                "name": "messages",
                "kind": "fixed_window",
                "limit": 40,
                "used": 3,
                "held": 1,
                "remaining": 36,
                "window_s": 10_800,
                "reset_at": iso(RESET_MS),
            },
            {
                "name": "slots",
                "kind": "slots",
                "limit": 2,
                "used": 1,
                "held": 0,
                "remaining": 1,
                "window_s": None,
                "reset_at": None,
            },
        ]
    }
    assert response.headers["ratelimit"] == '"messages";r=36;t=600, "slots";r=1'
    hasty.machines.always(None)
    response = await hasty.client.get("/v1/limits", headers=hasty.headers())
    assert response.json()["error"]["code"] == "quota_service_unavailable"


@pytest.mark.parametrize(
    ("refused", "code", "wait", "sdk"),
    [
        (
            Refused(
                code=Code.QUOTA_EXHAUSTED,
                retryable=False,
                retry_after_ms=600_000,
                limit=MESSAGES,
            ),
            429,
            "600",
            "false",
        ),
        (
            Refused(
                code=Code.CONCURRENCY_LIMITED, retryable=True, retry_after_ms=1_000, limit=SLOTS
            ),
            429,
            "1",
            None,
        ),
        (
            Refused(
                code=Code.RATE_LIMITED,
                retryable=True,
                retry_after_ms=2_001,
                limit=Limit(
                    name="burst", kind=LimitKind.BURST, limit=20, used=20, held=0, remaining=0
                ),
            ),
            429,
            "3",
            None,
        ),
        (Refused(code=Code.CAPACITY_EXHAUSTED, retryable=True), 503, "2", None),
        (Refused(code=Code.QUOTA_SERVICE_UNAVAILABLE, retryable=True), 503, "2", None),
        (Refused(code=Code.MODEL_NOT_ALLOWED, retryable=False), 403, None, None),
    ],
)
async def test_refusals_a_machine_can_act_on(
    world: World, refused: Refused, code: int, wait: str | None, sdk: str | None
) -> None:
    world.machines.always(refused)
    response = await world.client.post(
        "/v1/generations", json=question(), headers=world.headers(idempotency="k")
    )
    assert response.status_code == code
    error = response.json()["error"]
    assert (error["code"], error["retryable"]) == (refused.code.value, refused.retryable)
    assert response.headers.get("retry-after") == wait
    assert response.headers.get("x-should-retry") == sdk
    if refused.code is Code.QUOTA_EXHAUSTED:
        assert error["details"] == {
            "name": "messages",
            "limit": 40,
            "remaining": 36,
            "reset_at": iso(RESET_MS),
        }
        assert response.headers["ratelimit"] == '"messages";r=36;t=600'
    if refused.limit is SLOTS:
        assert "ratelimit-policy" in response.headers


async def test_a_bound_refusal_whose_window_is_over(world: World) -> None:
    past = Limit(
        name="messages",
        kind=LimitKind.FIXED_WINDOW,
        limit=3,
        used=3,
        held=0,
        remaining=0,
        window_s=60,
        reset_at_ms=NOW_MS - 5_000,
    )
    world.machines.always(Refused(code=Code.QUOTA_EXHAUSTED, retryable=False, limit=past))
    response = await world.client.post(
        "/v1/generations", json=question(), headers=world.headers(idempotency="k")
    )
    assert response.status_code == 429
    assert "retry-after" not in response.headers


async def test_an_ended_one_is_found_by_its_own_row_where_the_payload_s_was_lost(
    world: World,
) -> None:
    generation_id = await started(world)
    await world.whole(generation_id, "all")
    world.store.forget_payload(generation_id)
    await world.reader._calls.command("DEL", f"ctl:{{{generation_id}}}")
    await world.reader._calls.command("DEL", f"gen:{{{generation_id}}}")
    assert (await look(world, generation_id)).json()["status"] == "completed"
    path = f"/v1/generations/{generation_id}/stream"
    read = await world.client.get(path, headers=world.headers())
    assert '"text":"all"' in read.text
    assert (await stop(world, generation_id)).json() == {"status": "completed"}
    for url in (path, f"/v1/generations/{generation_id}"):
        foreign = await world.client.get(url, headers=world.headers(BEN))
        assert foreign.status_code == 404
