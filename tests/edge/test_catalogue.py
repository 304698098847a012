"""The error catalogue: complete, the same everywhere, and every code of the machines has a twin."""

import msgspec
import pytest

from edge import openapi
from edge.errors import CATALOGUE, ApiError, ErrorCode, error_body, error_headers
from edge.limits import refusal
from edge.stored import failed
from schemas.generated.types import Code, Refused

OUTSIDE = {
    "invalid_request": 400,
    "unauthorized": 401,
    "model_not_allowed": 403,
    "idempotency_conflict": 409,
    "generation_in_progress": 409,
    "result_unavailable": 410,
    "quota_exhausted": 429,
    "rate_limited": 429,
    "concurrency_limited": 429,
    "capacity_exhausted": 503,
    "quota_service_unavailable": 503,
    "model_backend_error": 502,
    "generation_timeout": 504,
    "not_found": 404,
    "payload_too_large": 413,
    "content_refused": 400,
    "content_moderated": None,
    "history_unavailable": 503,
    "not_home_region": 421,
    "conversation_deleted": 410,
    "method_not_allowed": 405,
    "internal": 500,
}


def test_every_code_of_the_outside_is_there_and_no_other() -> None:
    assert {code.value: CATALOGUE[code].status for code in ErrorCode} == OUTSIDE
    assert set(CATALOGUE) == set(ErrorCode)


def test_every_code_of_the_machines_is_known() -> None:
    assert {code.value for code in Code} - {"unknown"} <= {code.value for code in ErrorCode}
    for code in Code:
        shown = refusal(Refused(code=code, retryable=False), 0)
        assert shown.code.value == ("internal" if code is Code.UNKNOWN else code.value)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_what_each_looks_like(code: ErrorCode) -> None:
    rule = CATALOGUE[code]
    error = ApiError(code)
    told = msgspec.json.decode(error_body(error, "req_1"))["error"]
    assert told == {
        "code": code.value,
        "message": rule.message,
        "retryable": rule.retryable,
        "request_id": "req_1",
        "details": {},
    }
    headers = dict(error_headers(error))
    assert (b"retry-after" in headers) == rule.retryable
    if rule.status in (409, 429) and not rule.retryable:
        assert headers[b"x-should-retry"] == b"false"
    assert rule.message.endswith(".")


def test_a_failed_end_has_a_status_of_the_model_side() -> None:
    for code in Code:
        status = failed(code.value, "gen_X", partial=False).status
        assert status in (400, 401, 403, 404, 409, 410, 429, 502, 503, 504)
    assert failed("made_up_later", "gen_X", partial=False).code is ErrorCode.MODEL_BACKEND_ERROR


def test_the_document_names_every_code_a_route_may_give() -> None:
    shown = str(openapi.CREATE) + str(openapi.READ) + str(openapi.STREAM) + str(openapi.LIMITS)
    elsewhere = {"not_home_region", "conversation_deleted", "method_not_allowed"}
    for code in set(OUTSIDE) - elsewhere - {"content_moderated"}:
        assert code in shown, code
