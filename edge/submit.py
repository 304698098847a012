"""Admission as a conversation: text kept, question asked, decision waited for.

Owns the order of these steps. Decides nothing itself: who is admitted is the accounts machine's
word, and only a queued step is a yes.
"""

import asyncio
from typing import Final

import msgspec

from connectors.errors import RedisRefused, StoreUnavailable, Unfit
from connectors.redis.reader import PutCode
from connectors.store import Payload
from edge.auth import Caller
from edge.errors import ApiError, ErrorCode
from edge.feed import Feed
from edge.fingerprint import Identity, identify, payload_body
from edge.limits import refusal
from edge.models import Measure
from edge.parts import Parts
from edge.replies import Unanswered
from edge.request import GenerationRequest
from schemas.generated.types import (
    AccountsInbox,
    Api,
    Lane,
    OnDisconnect,
    OnWorkerLoss,
    Queued,
    Refused,
    Repeated,
    Spec,
    Submit,
    Tier,
)
from topics.models import Model
from topics.registry import ACCOUNTS_INBOX

PAYLOAD_MARGIN_S: Final = 600
STORE_AGAIN_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Pauses before a row is written again that only Redis has: a minute in all."""
WRITES_MAX: Final = 1_000
BODY_AGAIN_BYTES_MAX: Final = 65_536
"""Bounds of what waits for the store to come back; what is beyond them is left to Redis."""
_LANES: Final = {Tier.PAID: Lane.PAID, Tier.OPERATOR: Lane.PAID}


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A valid request of a known caller, with its ids."""

    request_id: str
    generation_id: str
    caller: Caller
    request: GenerationRequest
    model: Model
    measure: Measure
    identity: Identity


class Admitted(msgspec.Struct, frozen=True):
    """Queued, and subscribed to. `fresh`: the subscription was there before the stream could be.
    The feed is held for its first reader; `Hub.release` it."""

    feed: Feed
    fresh: bool
    queued: Queued
    now_ms: int


class Known(msgspec.Struct, frozen=True):
    """The key was used before."""

    repeated: Repeated


async def understand(
    parts: Parts, caller: Caller, key: str, request: GenerationRequest, request_id: str
) -> Asked:
    """The request with its model, its tokens, its fingerprint and new ids.

    Raises:
        ApiError: an unknown or closed model, a prompt over the context.
    """
    model = parts.models.resolve(request.model, caller.tier)
    measure = await parts.models.measure(model, request.turns(), request.tokens_wanted())
    return Asked(
        request_id=request_id,
        generation_id=parts.mint.id("gen"),
        caller=caller,
        request=request,
        model=model,
        measure=measure,
        identity=identify(parts.secret, caller.user_id, key, request),
    )


async def submit(parts: Parts, asked: Asked) -> Admitted | Known:
    """
    Raises:
        ApiError: a refusal, or no decision in time.
    """
    if not parts.hub.connected:
        raise ApiError(ErrorCode.CAPACITY_EXHAUSTED)
    feed = parts.hub.hold(asked.generation_id)
    try:
        await _keep_payload(parts, asked)
        fresh = await parts.hub.confirmed(feed, parts.settings.payload_ms_max / 1_000)
        answer = await parts.replies.ask(
            ACCOUNTS_INBOX,
            asked.caller.user_id,
            _question(parts, asked),
            asked.request_id,
            parts.settings.decision_ms_max,
            "submit",
        )
        match answer.body:
            case Queued():
                return Admitted(feed, fresh, answer.body, answer.append_ms)
            case Repeated():
                parts.hub.release(feed)
                return Known(answer.body)
            case Refused():
                raise refusal(answer.body, answer.append_ms)
            case _:
                raise AssertionError("a Submit is answered by a decision")
    except Unanswered:
        parts.hub.release(feed)
        raise ApiError(ErrorCode.QUOTA_SERVICE_UNAVAILABLE) from None
    except BaseException:
        parts.hub.release(feed)
        raise


def _question(parts: Parts, asked: Asked) -> AccountsInbox:
    return AccountsInbox(
        event_id=parts.mint.event_id(),
        body=Submit(
            request_id=asked.request_id,
            identity=asked.identity.identity,
            fingerprint=asked.identity.fingerprint,
            reply_partition=parts.reply_partition,
            plan_version=parts.settings.plan_version,
            spec=_spec(parts, asked),
        ),
    )


def _spec(parts: Parts, asked: Asked) -> Spec:
    request, model, settings = asked.request, asked.model, parts.settings
    return Spec(
        generation_id=asked.generation_id,
        runs_key=asked.identity.runs_key,
        api=Api.GENERATIONS,
        tier=asked.caller.tier,
        lane=_LANES.get(asked.caller.tier, Lane.FREE),
        model=model.alias,
        model_version=model.version,
        pool=model.pool,
        input_tokens=asked.measure.input_tokens,
        output_tokens_max=asked.measure.output_tokens_max,
        temperature=request.temperature,
        top_p=request.top_p,
        seed=request.seed_wanted(),
        queue_wait_ms_max=settings.queue_wait_ms_max,
        run_ms_max=settings.run_ms_max,
        on_disconnect=OnDisconnect.CANCEL,
        disconnect_grace_ms=settings.disconnect_grace_ms,
        on_worker_loss=OnWorkerLoss.FAIL,
        fallback=request.wanted_fallback,
    )


async def _keep_payload(parts: Parts, asked: Asked) -> None:
    """Writes the text to Redis and the store at once; one of the two is enough.

    Raises:
        ApiError: capacity_exhausted where neither took it, or Redis is full.
    """
    body = payload_body(asked.request)
    ttl_s = (
        parts.settings.queue_wait_ms_max + parts.settings.run_ms_max
    ) // 1_000 + PAYLOAD_MARGIN_S
    row = Payload(
        generation_id=asked.generation_id,
        user_id=asked.caller.user_id,
        runs_key=asked.identity.runs_key,
        api=Api.GENERATIONS,
        model=asked.model.alias,
        model_version=asked.model.version,
        body=body,
        created_at_ms=parts.mint.wall_ms(),
    )
    in_store = asyncio.create_task(_in_store(parts, row))
    waiting: set[asyncio.Task[PutCode]] = {
        asyncio.create_task(_in_redis(parts, asked.generation_id, body, ttl_s)),
        in_store,
    }
    until_s = parts.mint.now_s() + parts.settings.payload_ms_max / 1_000
    while waiting:
        left_s = max(0.0, until_s - parts.mint.now_s())
        done, waiting = await asyncio.wait(
            waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
        )
        codes = {task.result() for task in done}
        if PutCode.FULL in codes:
            break  # the store could keep the text, but nobody could be shown an answer
        if PutCode.OK in codes:
            _let_go_on(parts, waiting)
            if in_store not in done or in_store.result() is not PutCode.OK:
                _write_again(parts, row, in_store)
            return
        if not done:
            break
    _let_go_on(parts, waiting)
    raise ApiError(ErrorCode.CAPACITY_EXHAUSTED)


def _let_go_on(parts: Parts, writes: set[asyncio.Task[PutCode]]) -> None:
    """What is still being written ends within its own deadline."""
    parts.writes.update(writes)
    for task in writes:
        task.add_done_callback(parts.writes.discard)


def _write_again(parts: Parts, row: Payload, first: "asyncio.Task[PutCode]") -> None:
    if len(parts.writes) < WRITES_MAX and len(row.body) <= BODY_AGAIN_BYTES_MAX:
        _let_go_on(parts, {asyncio.create_task(_until_stored(parts, row, first))})


async def _until_stored(parts: Parts, row: Payload, first: "asyncio.Task[PutCode]") -> PutCode:
    """The row says whose the generation is: without it nobody finds it once Redis forgets."""
    code = await first
    for pause_s in STORE_AGAIN_S:
        if code is PutCode.OK:
            break
        await asyncio.sleep(pause_s)
        code = await _in_store(parts, row)
    return code


async def _in_redis(parts: Parts, generation_id: str, body: bytes, ttl_s: int) -> PutCode:
    try:
        return await parts.log.put_payload(generation_id, body, ttl_s)
    except RedisRefused:
        return PutCode.AWAY


async def _in_store(parts: Parts, row: Payload) -> PutCode:
    try:
        await parts.store.put_payload(row)
    except (StoreUnavailable, Unfit):
        return PutCode.AWAY
    return PutCode.OK
