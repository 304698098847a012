"""Limits as clients see them: JSON, and headers in the IETF draft's and the customary form. Pure.

`RateLimit` and `RateLimit-Policy` are structured fields as in draft-ietf-httpapi-ratelimit-headers
(policy items with q, w, qu; state items with r, t). Now is broker time, never this machine's.
"""

from datetime import UTC, datetime
from typing import Any

from edge.answers import Headers
from edge.errors import ApiError, ErrorCode, whole_seconds
from schemas.generated.types import Code, Limit, LimitKind, Refused


def iso(at_ms: int) -> str:
    """UTC epoch milliseconds as ISO 8601 with a Z; milliseconds only where there are any."""
    at = datetime.fromtimestamp(at_ms / 1_000, UTC)
    whole = at_ms % 1_000 == 0
    return at.strftime("%Y-%m-%dT%H:%M:%S") + ("Z" if whole else f".{at_ms % 1_000:03d}Z")


def limit_json(limit: Limit) -> dict[str, Any]:
    return {
        "name": limit.name,
        "kind": limit.kind.value,
        "limit": limit.limit,
        "used": limit.used,
        "held": limit.held,
        "remaining": limit.remaining,
        "window_s": limit.window_s,
        "reset_at": None if limit.reset_at_ms is None else iso(limit.reset_at_ms),
    }


def limit_headers(limits: tuple[Limit, ...], now_ms: int) -> Headers:
    """`RateLimit-Policy`, `RateLimit` and `x-ratelimit-*` of the limits after a decision."""
    if not limits:
        return []
    policies, states = [], []
    for limit in limits:
        window = "" if limit.window_s is None else f";w={limit.window_s}"
        unit = ';qu="concurrent-requests"' if limit.kind is LimitKind.SLOTS else ""
        policies.append(f'"{limit.name}";q={limit.limit}{window}{unit}')
        wait = _wait_s(limit, now_ms)
        reset = "" if wait is None else f";t={wait}"
        states.append(f'"{limit.name}";r={max(0, limit.remaining)}{reset}')
    headers = [
        (b"ratelimit-policy", ", ".join(policies).encode()),
        (b"ratelimit", ", ".join(states).encode()),
    ]
    counted = next((one for one in limits if one.kind is LimitKind.FIXED_WINDOW), limits[0])
    headers += [
        (b"x-ratelimit-limit-requests", b"%d" % counted.limit),
        (b"x-ratelimit-remaining-requests", b"%d" % max(0, counted.remaining)),
    ]
    wait = _wait_s(counted, now_ms)
    if wait is not None:
        headers.append((b"x-ratelimit-reset-requests", b"%ds" % wait))
    return headers


def _wait_s(limit: Limit, now_ms: int) -> int | None:
    if limit.reset_at_ms is None:
        return None
    return max(0, whole_seconds(limit.reset_at_ms - now_ms))


def refusal(refused: Refused, now_ms: int) -> ApiError:
    """A machine's refusal as the error that a client can act on."""
    code = _code(refused.code)
    details: dict[str, Any] = {}
    limits: tuple[Limit, ...] = ()
    after_s = None if refused.retry_after_ms is None else whole_seconds(refused.retry_after_ms)
    if refused.limit is not None:
        limits = (refused.limit,)
        details = {
            "name": refused.limit.name,
            "limit": refused.limit.limit,
            "remaining": max(0, refused.limit.remaining),
        }
        if refused.limit.reset_at_ms is not None:
            details["reset_at"] = iso(refused.limit.reset_at_ms)
            if code is ErrorCode.QUOTA_EXHAUSTED:  # the wait must end with the window told above
                after_s = _wait_s(refused.limit, now_ms) or None
    if refused.generation_id is not None:
        details["generation_id"] = refused.generation_id
    if refused.status is not None:
        details["status"] = refused.status
    return ApiError(
        code,
        details=details,
        retryable=refused.retryable,
        retry_after_s=after_s,
        headers=tuple(limit_headers(limits, now_ms)),
    )


def _code(code: Code) -> ErrorCode:
    """Every code of the machines has its twin here; a code of a later version is internal."""
    return ErrorCode(code.value) if code.value in set(ErrorCode) else ErrorCode.INTERNAL
