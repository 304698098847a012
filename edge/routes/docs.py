"""`/docs` and `/openapi.json`: public, self-contained, nothing fetched from another host."""

from pathlib import Path
from typing import Final

import msgspec
from fastapi import APIRouter, FastAPI, Response

from edge.answers import Answer

_PAGE: Final = (Path(__file__).parent.parent / "docs.html").read_bytes()
_HEADERS: Final = [
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        b"connect-src 'self'",
    ),
    (b"cache-control", b"public, max-age=300"),
    (b"x-content-type-options", b"nosniff"),
]


def routes(app: FastAPI) -> APIRouter:
    """The document is made once, when it is first asked for."""
    router = APIRouter(include_in_schema=False)
    made: list[bytes] = []

    @router.get("/docs")
    async def page() -> Response:
        return Answer(200, _PAGE, _HEADERS, content=b"text/html; charset=utf-8")

    @router.get("/openapi.json")
    async def document() -> Response:
        if not made:
            made.append(msgspec.json.encode(app.openapi()))
        return Answer(200, made[0], [_HEADERS[1]])

    return router
