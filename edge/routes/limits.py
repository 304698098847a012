"""`/v1/limits`: what the caller may do now, asked of the accounts machine, never of a cache."""

from fastapi import APIRouter, Request, Response

from edge.answers import json_answer
from edge.auth import Caller
from edge.errors import ApiError, ErrorCode
from edge.limits import limit_headers, limit_json
from edge.openapi import LIMITS
from edge.parts import Parts
from edge.replies import Answer, Unanswered
from schemas.generated.types import AccountsInbox, Limits, Query
from topics.registry import ACCOUNTS_INBOX


def routes(parts: Parts) -> APIRouter:
    """The router of this noun; `parts` are what it needs."""
    router = APIRouter(prefix="/v1/limits")

    @router.get("", openapi_extra=LIMITS, summary="Limits", tags=["limits"])
    async def read(request: Request) -> Response:
        caller = await parts.keys.caller(request.scope["headers"])
        answer = await _ask(parts, caller)
        if not isinstance(answer.body, Limits):
            raise ApiError(ErrorCode.QUOTA_SERVICE_UNAVAILABLE)
        limits = answer.body.limits
        shown = {"limits": [limit_json(limit) for limit in limits]}
        return json_answer(shown, headers=limit_headers(limits, answer.append_ms))

    return router


async def _ask(parts: Parts, caller: Caller) -> Answer:
    request_id = parts.mint.id("req")
    question = AccountsInbox(
        event_id=parts.mint.event_id(),
        body=Query(
            request_id=request_id,
            reply_partition=parts.reply_partition,
            tier=caller.tier,
            user_id=caller.user_id,
        ),
    )
    wait_ms = parts.settings.answer_ms_max
    try:
        return await parts.replies.ask(
            ACCOUNTS_INBOX, caller.user_id, question, request_id, wait_ms, "limits"
        )
    except Unanswered:
        raise ApiError(ErrorCode.QUOTA_SERVICE_UNAVAILABLE) from None
