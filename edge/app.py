"""The ASGI app: FastAPI for routes and OpenAPI, our own bytes for every answer."""

from typing import Any, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from edge import context, openapi
from edge.answers import Answer, error_answer
from edge.body import Gone
from edge.door import Door
from edge.errors import ApiError, ErrorCode
from edge.parts import Parts
from edge.routes import docs, generations, limits

_CLIENT_GONE: Final = 499
_ABOUT: Final = (
    "Chat generations over server-sent events, admitted once, readable from any edge any number "
    "of times. Errors everywhere have one shape; `code` says what to do. Repeat a POST with the "
    "same Idempotency-Key as often as you like."
)


def build(parts: Parts) -> ASGIApp:
    """The whole public app."""
    app = FastAPI(
        title="Milena",
        version="1",
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.include_router(generations.routes(parts))
    app.include_router(limits.routes(parts))
    app.include_router(docs.routes(app))
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _framework_error)
    app.add_exception_handler(Gone, _gone)
    app.add_exception_handler(Exception, _fault)
    app.openapi = _with_components(app)  # type: ignore[method-assign]
    return Door(app, parts.mint, parts.metrics, parts.settings.requests_max)


def _with_components(app: FastAPI) -> Any:
    made = app.openapi

    def document() -> dict[str, Any]:
        whole = made()
        ours = openapi.components()
        whole["components"] = {**whole.get("components", {}), **ours}
        whole["security"] = [{"key": []}]
        for methods in whole["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)  # our own checks answer before
        return whole

    return document


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_answer(error, context.of(request.scope).request_id)


async def _framework_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = {
        404: ErrorCode.NOT_FOUND,
        405: ErrorCode.METHOD_NOT_ALLOWED,
    }.get(error.status_code, ErrorCode.INVALID_REQUEST)
    allowed = (error.headers or {}).get("Allow")
    headers = () if allowed is None else ((b"allow", allowed.encode()),)
    shown = ApiError(code, status=error.status_code, headers=headers)
    return error_answer(shown, context.of(request.scope).request_id)


async def _gone(request: Request, error: Exception) -> Response:
    """Nobody reads it; the request is counted, and the server finds its answer complete."""
    return Answer(_CLIENT_GONE, b"", [], code="client_gone")


async def _fault(request: Request, error: Exception) -> Response:
    """What the client sees of a fault; the door logs it."""
    return error_answer(ApiError(ErrorCode.INTERNAL), context.of(request.scope).request_id)
