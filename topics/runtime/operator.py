"""The operator port of a process without an edge: /livez, /readyz, /metrics on loopback.

Owns a small threaded server beside the process's own loop, so that health answers even when
the loop is stuck and says so. Never serves a user's data.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import REGISTRY, make_wsgi_app

Readiness = Callable[[], Mapping[str, str]]
"""Names of what is missing -> why; empty means ready."""


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Health checks are not news."""


class OperatorPort:
    """Serves until `close`. `readiness` is asked on every /readyz."""

    def __init__(self, host: str, port: int, readiness: Readiness) -> None:
        self._readiness = readiness
        self._metrics = make_wsgi_app(REGISTRY)
        self._server: WSGIServer = make_server(host, port, self._app, handler_class=_Quiet)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2)

    def _app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            metrics: Iterable[bytes] = self._metrics(environ, start_response)
            return metrics
        if path == "/livez":
            return _json(start_response, "200 OK", {"live": True})
        if path == "/readyz":
            missing = dict(self._readiness())
            status = "503 Service Unavailable" if missing else "200 OK"
            return _json(start_response, status, {"ready": not missing, "missing": missing})
        return _json(start_response, "404 Not Found", {"paths": ["/livez", "/readyz", "/metrics"]})


def _json(start_response: Any, status: str, body: Mapping[str, Any]) -> Iterable[bytes]:
    raw = json.dumps(body).encode()
    start_response(
        status, [("Content-Type", "application/json"), ("Content-Length", str(len(raw)))]
    )
    return [raw]
