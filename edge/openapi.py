"""What the routes say about themselves in OpenAPI: parameters, bodies, answers, with examples.

Owns words and examples. Schemas of requests come from the types that check them.
"""

from typing import Any, Final

import msgspec

from edge.errors import CATALOGUE, ErrorCode
from edge.request import GenerationRequest

Piece = dict[str, Any]
_REF: Final = "#/components/schemas/{name}"
_GENERATION_ID: Final = "gen_01KC5ZQ6W4T6GQ2V3N8R7M1XHD"
_USAGE: Final = {"input_tokens": 38, "cached_input_tokens": 0, "output_tokens": 128}
_LIMIT: Final = {
    "name": "messages",
    "kind": "fixed_window",
    "limit": 40,
    "used": 3,
    "held": 1,
    "remaining": 36,
    "window_s": 10_800,
    "reset_at": "2026-11-06T18:00:00Z",
}
_DOCUMENT: Final = {
    "id": _GENERATION_ID,
    "status": "completed",
    "model": "flagship",
    "output": [{"type": "text", "text": "TCP congestion control adjusts the rate…"}],
    "finish_reason": "stop",
    "usage": _USAGE,
}
_STATE: Final = {
    "id": _GENERATION_ID,
    "status": "completed",
    "hold": "consumed",
    "model": "flagship",
    "epoch": 2,
    "created_at": "2026-11-06T15:04:05.123Z",
    "usage": _USAGE,
    "output": [{"type": "text", "text": "TCP congestion control adjusts the rate…"}],
    "error": None,
}
_STREAM: Final = (
    "event: generation.created\n"
    f'data: {{"generation_id":"{_GENERATION_ID}","sequence":0,"status":"queued"}}\n\n'
    "id: 1-1\nevent: generation.text.delta\n"
    f'data: {{"generation_id":"{_GENERATION_ID}","sequence":1,"index":0,"offset":0,"delta":"TCP"}}'
    "\n\n"
)
_REQUEST: Final = {
    "model": "flagship",
    "messages": [{"role": "user", "content": "Explain TCP congestion control."}],
    "stream": True,
    "max_output_tokens": 1_000,
}


def _json(example: Any, description: str) -> Piece:
    return {
        "description": description,
        "content": {"application/json": {"schema": {"type": "object"}, "example": example}},
    }


def _events(description: str) -> Piece:
    return {
        "description": f"{description} `offset` counts Unicode code points; text is provisional "
        "until the terminal event; a stream that ends without one was cut: read it again.",
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _STREAM}},
    }


def _errors(*codes: ErrorCode) -> Piece:
    by_status: dict[str, list[ErrorCode]] = {}
    always = (ErrorCode.UNAUTHORIZED, ErrorCode.INTERNAL)
    for code in (*codes, *always):
        by_status.setdefault(str(CATALOGUE[code].status), []).append(code)
    return {status: _error(found) for status, found in by_status.items()}


def _error(codes: list[ErrorCode]) -> Piece:
    examples: Piece = {
        code.value: {
            "value": {
                "error": {
                    "code": code.value,
                    "message": CATALOGUE[code].message,
                    "retryable": CATALOGUE[code].retryable,
                    "request_id": "req_01KC5ZQ6W4T6GQ2V3N8R7M1XHE",
                    "details": {},
                }
            }
        }
        for code in codes
    }
    schema = {"$ref": _REF.format(name="Error")}
    return {
        "description": ", ".join(code.value for code in codes),
        "content": {"application/json": {"schema": schema, "examples": examples}},
    }


def _header(name: str, description: str, *, required: bool = False) -> Piece:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string"},
    }


CREATE: Final[Piece] = {
    "parameters": [
        _header("Idempotency-Key", "1 to 255 visible ASCII characters.", required=True),
        _header("Prefer", "`reattach`: a repeat of a running request gets its stream again."),
    ],
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"$ref": _REF.format(name="GenerationRequest")},
                "example": _REQUEST,
            }
        },
    },
    "responses": {
        "200": {
            "description": "A stream (`stream: true`) or one document, from the same events. "
            "`Idempotent-Replayed: true` where the key's stored answer is given.",
            "content": {
                "application/json": {"schema": {"type": "object"}, "example": _DOCUMENT},
                **_events("")["content"],
            },
        },
        **_errors(
            ErrorCode.INVALID_REQUEST,
            ErrorCode.CONTENT_REFUSED,
            ErrorCode.MODEL_NOT_ALLOWED,
            ErrorCode.IDEMPOTENCY_CONFLICT,
            ErrorCode.GENERATION_IN_PROGRESS,
            ErrorCode.RESULT_UNAVAILABLE,
            ErrorCode.PAYLOAD_TOO_LARGE,
            ErrorCode.RATE_LIMITED,
            ErrorCode.CONCURRENCY_LIMITED,
            ErrorCode.QUOTA_EXHAUSTED,
            ErrorCode.CAPACITY_EXHAUSTED,
            ErrorCode.QUOTA_SERVICE_UNAVAILABLE,
            ErrorCode.MODEL_BACKEND_ERROR,
            ErrorCode.GENERATION_TIMEOUT,
        ),
    },
}
READ: Final[Piece] = {
    "responses": {
        "200": _json(_STATE, "What is known of the generation now."),
        **_errors(ErrorCode.NOT_FOUND, ErrorCode.HISTORY_UNAVAILABLE),
    }
}
STREAM: Final[Piece] = {
    "parameters": [
        _header(
            "Last-Event-ID",
            "Id of the last event seen: what follows is sent. Any other value gives the whole "
            "stream again, begun with an empty `generation.snapshot`.",
        )
    ],
    "responses": {
        "200": _events("The events so far and those to come."),
        **_errors(ErrorCode.NOT_FOUND, ErrorCode.RESULT_UNAVAILABLE, ErrorCode.HISTORY_UNAVAILABLE),
    },
}
CANCEL: Final[Piece] = {
    "responses": {
        "200": _json({"status": "completed"}, "It had ended; its final status."),
        "202": _json({"status": "cancel_requested"}, "The stop is recorded."),
        **_errors(ErrorCode.NOT_FOUND, ErrorCode.QUOTA_SERVICE_UNAVAILABLE),
    }
}
LIMITS: Final[Piece] = {
    "responses": {
        "200": _json({"limits": [_LIMIT]}, "Every limit of the caller."),
        **_errors(ErrorCode.QUOTA_SERVICE_UNAVAILABLE),
    }
}


def components() -> Piece:
    """Shared schemas and the one way to authenticate."""
    (_,), schemas = msgspec.json.schema_components([GenerationRequest], ref_template=_REF)
    codes = [code.value for code in ErrorCode]
    error = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "required": ["code", "message", "retryable", "request_id", "details"],
                "properties": {
                    "code": {"type": "string", "enum": codes},
                    "message": {"type": "string"},
                    "retryable": {"type": "boolean"},
                    "request_id": {"type": "string"},
                    "details": {"type": "object"},
                },
            }
        },
    }
    bearer = {"type": "http", "scheme": "bearer", "bearerFormat": "mk_…"}
    return {"schemas": {**schemas, "Error": error}, "securitySchemes": {"key": bearer}}
