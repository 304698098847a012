"""What one request carries through the edge: its id, its start, how it was answered.

Lives in the ASGI scope under one name. Holds nothing of the request's content.
"""

from typing import Any, Final

from starlette.types import Scope

_NAME: Final = "milena.context"
TRANSPORT: Final = "milena.transport"
"""Where our protocol class puts the connection's transport."""


class Context:
    """`started_s` is on the clock of `topics.runtime.clock.elapsed_s`."""

    __slots__ = ("body_read", "code", "request_id", "started_s", "status")

    def __init__(self, request_id: str, started_s: float) -> None:
        self.request_id = request_id
        self.started_s = started_s
        self.status = 0
        self.code = "ok"
        self.body_read = False

    def answered(self, status: int, code: str) -> None:
        """Noted when the first byte of the answer goes out."""
        self.status = status
        self.code = code


def put(scope: Scope, context: Context) -> None:
    scope[_NAME] = context


def of(scope: Scope) -> Context:
    context: Context = scope[_NAME]
    return context


def transport_of(scope: Scope) -> Any:
    """The connection's transport, or None where another server runs the app."""
    return scope.get(TRANSPORT)
