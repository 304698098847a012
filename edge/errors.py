"""Errors: one catalogue of codes, each with its status, its words and what a client may do.

Owns what an error looks like; never decides that there is one. A message names what to do next.
"""

import math
from enum import StrEnum
from typing import Any, Final

import msgspec

from topics.errors import MilenaError


class ErrorCode(StrEnum):
    """Every code a client can meet, in the order of their checks."""

    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_FOUND = "not_found"
    UNAUTHORIZED = "unauthorized"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    INVALID_REQUEST = "invalid_request"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    CONTENT_REFUSED = "content_refused"
    NOT_HOME_REGION = "not_home_region"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    GENERATION_IN_PROGRESS = "generation_in_progress"
    RESULT_UNAVAILABLE = "result_unavailable"
    CONVERSATION_DELETED = "conversation_deleted"
    RATE_LIMITED = "rate_limited"
    CONCURRENCY_LIMITED = "concurrency_limited"
    QUOTA_EXHAUSTED = "quota_exhausted"
    CAPACITY_EXHAUSTED = "capacity_exhausted"
    QUOTA_SERVICE_UNAVAILABLE = "quota_service_unavailable"
    HISTORY_UNAVAILABLE = "history_unavailable"
    MODEL_BACKEND_ERROR = "model_backend_error"
    GENERATION_TIMEOUT = "generation_timeout"
    CONTENT_MODERATED = "content_moderated"
    INTERNAL = "internal"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How one code is shown. `status` None: inside streams only."""

    status: int | None
    retryable: bool
    message: str
    retry_after_s: int | None = None
    sdk_retry: bool | None = None
    """False tells clients that retry by status alone not to."""


def _rule(
    status: int | None,
    message: str,
    *,
    retryable: bool = False,
    retry_after_s: int | None = None,
    sdk_retry: bool | None = None,
) -> Rule:
    return Rule(
        status=status,
        retryable=retryable,
        message=message,
        retry_after_s=retry_after_s,
        sdk_retry=sdk_retry,
    )


CATALOGUE: Final[dict[ErrorCode, Rule]] = {
    ErrorCode.METHOD_NOT_ALLOWED: _rule(
        405, "This path does not take this method; the Allow header lists those it takes."
    ),
    ErrorCode.NOT_FOUND: _rule(404, "There is nothing here for you; check the id and the key."),
    ErrorCode.UNAUTHORIZED: _rule(
        401, "No valid API key came; send `Authorization: Bearer mk_…` with a key of yours."
    ),
    ErrorCode.PAYLOAD_TOO_LARGE: _rule(413, "The body is too large; send a shorter one."),
    ErrorCode.INVALID_REQUEST: _rule(400, "The request is not valid; correct it."),
    ErrorCode.MODEL_NOT_ALLOWED: _rule(
        403, "Your plan does not include this model; choose another or change the plan."
    ),
    ErrorCode.CONTENT_REFUSED: _rule(400, "This content is refused; change it."),
    ErrorCode.NOT_HOME_REGION: _rule(
        421, "Another region owns this account; send the request there."
    ),
    ErrorCode.IDEMPOTENCY_CONFLICT: _rule(
        409,
        "This Idempotency-Key was used with another body; use a new key for a new request.",
        sdk_retry=False,
    ),
    ErrorCode.GENERATION_IN_PROGRESS: _rule(
        409,
        "This request is being answered; read its stream, or repeat it with `Prefer: reattach`.",
        sdk_retry=False,
    ),
    ErrorCode.RESULT_UNAVAILABLE: _rule(
        410, "The answer is no longer kept; ask again under a new Idempotency-Key."
    ),
    ErrorCode.CONVERSATION_DELETED: _rule(410, "This conversation was deleted; start a new one."),
    ErrorCode.RATE_LIMITED: _rule(
        429,
        "Too many requests at once; wait as long as Retry-After says.",
        retryable=True,
        retry_after_s=3,
    ),
    ErrorCode.CONCURRENCY_LIMITED: _rule(
        429,
        "All your concurrent generations are running; wait for one to end or cancel it.",
        retryable=True,
        retry_after_s=1,
    ),
    ErrorCode.QUOTA_EXHAUSTED: _rule(
        429,
        "Your message allowance is used; send a new request with a new key after the reset.",
        sdk_retry=False,
    ),
    ErrorCode.CAPACITY_EXHAUSTED: _rule(
        503,
        "No capacity is free now; retry the same request with the same key after a while.",
        retryable=True,
        retry_after_s=2,
    ),
    ErrorCode.QUOTA_SERVICE_UNAVAILABLE: _rule(
        503,
        "Admission gave no answer in time; retry the same request with the same key.",
        retryable=True,
        retry_after_s=2,
    ),
    ErrorCode.HISTORY_UNAVAILABLE: _rule(
        503,
        "Stored answers cannot be read now; retry after a while.",
        retryable=True,
        retry_after_s=2,
    ),
    ErrorCode.MODEL_BACKEND_ERROR: _rule(
        502, "The model failed on this request; ask again under a new Idempotency-Key."
    ),
    ErrorCode.GENERATION_TIMEOUT: _rule(
        504, "The answer took too long and was ended; ask again under a new Idempotency-Key."
    ),
    ErrorCode.CONTENT_MODERATED: _rule(None, "The answer was withdrawn."),
    ErrorCode.INTERNAL: _rule(500, "An unexpected fault; report the request id."),
}


class ApiError(MilenaError):
    """An answer that is an error. Values not given come from the catalogue."""

    def __init__(
        self,
        code: ErrorCode,
        message: str | None = None,
        *,
        details: dict[str, Any] | None = None,
        status: int | None = None,
        retryable: bool | None = None,
        retry_after_s: int | None = None,
        sdk_retry: bool | None = None,
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        rule = CATALOGUE[code]
        super().__init__(code)
        self.code = code
        self.message = message or rule.message
        self.details = details or {}
        self.status = status or rule.status or 500
        self.retryable = rule.retryable if retryable is None else retryable
        self.retry_after_s = rule.retry_after_s if retry_after_s is None else retry_after_s
        self.sdk_retry = rule.sdk_retry if sdk_retry is None else sdk_retry
        self.headers = headers


def invalid(param: str | None, reason: str, status: int = 400, **details: Any) -> ApiError:
    """invalid_request that names its parameter, in the message and in `details.param`."""
    name = "" if param is None else f"{param}: "
    shown = {} if param is None else {"param": param}
    return ApiError(
        ErrorCode.INVALID_REQUEST, f"{name}{reason}", details={**shown, **details}, status=status
    )


def error_body(error: ApiError, request_id: str) -> bytes:
    """The one shape of every error. An internal one shows its request id and nothing else."""
    return msgspec.json.encode(
        {
            "error": {
                "code": error.code,
                "message": error.message,
                "retryable": error.retryable,
                "request_id": request_id,
                "details": error.details,
            }
        }
    )


def error_headers(error: ApiError) -> list[tuple[bytes, bytes]]:
    """Headers that go with the body: what the body says, for clients that never read it."""
    headers = list(error.headers)
    if error.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % max(1, error.retry_after_s)))
    if error.sdk_retry is not None:
        headers.append((b"x-should-retry", b"true" if error.sdk_retry else b"false"))
    if error.code is ErrorCode.UNAUTHORIZED:
        headers.append((b"www-authenticate", b'Bearer realm="milena"'))
    return headers


def whole_seconds(ms: int) -> int:
    """Milliseconds rounded up: waiting this long is enough."""
    return math.ceil(ms / 1_000)
