"""The outermost ASGI layer: gives each request its id, counts it, and lets no fault out.

Owns what happens to an exception nobody expected: a typed 500 with the request id and nothing
else, and a log line with the place but without a message, which might quote private text.
"""

import asyncio
import traceback
from collections.abc import Callable

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from edge import context
from edge.answers import error_answer
from edge.context import Context
from edge.errors import ApiError, ErrorCode
from edge.metrics import Metrics
from edge.parts import Mint

_log = structlog.get_logger()


class Door:
    """Wraps the app; `requests_max` requests and streams at once."""

    def __init__(self, app: ASGIApp, mint: Mint, metrics: Metrics, requests_max: int) -> None:
        self._app = app
        self._mint = mint
        self._metrics = metrics
        self._requests_max = requests_max
        self._open = 0
        metrics.open_requests.set_function(lambda: self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("only HTTP is served here")
        told = Context(self._mint.id("req"), self._mint.now_s())
        context.put(scope, told)
        self._open += 1
        try:
            if self._open > self._requests_max:
                error = ApiError(ErrorCode.CAPACITY_EXHAUSTED)
                await error_answer(error, told.request_id)(scope, receive, send)
            else:
                await self._app(scope, receive, send)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001  (the outermost loop of a request)
            await self._fault(error, told, scope, receive, send)
        finally:
            self._open -= 1
            self._metrics.requests.labels(_route(scope), told.code).inc()

    async def _fault(
        self, error: Exception, told: Context, scope: Scope, receive: Receive, send: Send
    ) -> None:
        self._metrics.faults.inc()
        _log.error(
            "edge_fault",
            request_id=told.request_id,
            route=_route(scope),
            kind=type(error).__name__,
            at=places(error),
        )
        if not told.status:
            failed = error_answer(ApiError(ErrorCode.INTERNAL), told.request_id)
            await failed(scope, receive, send)
            return
        told.code = ErrorCode.INTERNAL.value
        transport = context.transport_of(scope)
        if transport is not None:
            transport.close()


def places(error: BaseException) -> list[str]:
    """File, line and function of each frame, innermost last; no source and no message."""
    frames = traceback.extract_tb(error.__traceback__)
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]]


def _route(scope: Scope) -> str:
    path: Callable[[], str] | str | None = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "none"
