"""The wish to stop one generation, recorded in the log; what becomes of it is the run's to say."""

from connectors.errors import StoreUnavailable
from edge.auth import Caller
from edge.errors import ApiError, ErrorCode
from edge.parts import Parts
from edge.replies import Unanswered
from edge.status import Owned, ended_row, status_word, terminal_word
from schemas.generated.types import RunsInbox, Status, Stop, StopReason
from topics.registry import RUNS_INBOX

REQUESTED = "cancel_requested"


async def request_stop(parts: Parts, caller: Caller, own: Owned) -> str:
    """`cancel_requested`, or the status the generation ended with. Asked again: the same.

    Raises:
        ApiError: not_found where runs does not know it, 503 where nothing was recorded.
    """
    try:
        row = await ended_row(parts, own.generation_id)
    except StoreUnavailable:
        row = None  # the log decides without the store
    if row is not None:
        return row.status.value
    request_id = parts.mint.id("req")
    order = RunsInbox(
        event_id=parts.mint.event_id(),
        body=Stop(
            generation_id=own.generation_id,
            user_id=caller.user_id,
            reason=StopReason.USER,
            request_id=request_id,
            reply_partition=parts.reply_partition,
        ),
    )
    try:
        answer = await parts.replies.ask(
            RUNS_INBOX, own.runs_key, order, request_id, parts.settings.decision_ms_max, "stop"
        )
    except Unanswered as error:
        if error.appended:
            return REQUESTED  # it is in the log, and the run will come to it
        raise ApiError(
            ErrorCode.QUOTA_SERVICE_UNAVAILABLE, "The stop was not recorded; send it again."
        ) from None
    if not isinstance(answer.body, Status) or not answer.body.known:
        raise ApiError(ErrorCode.NOT_FOUND)
    word = status_word(answer.body)
    if word == "persisting":  # decided, only not yet kept: the stop came too late
        return terminal_word(answer.body.terminal)
    return word
