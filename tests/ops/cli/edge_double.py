"""An edge in one thread, scripted: it streams given events, cuts connections, waits for a cancel.

Speaks the HTTP of the real one as far as `milena ask` uses it, on a loopback port of its own.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any

GENERATION_ID = "gen_01M8Q5Z3V7B3C5D7F9H1K3M5P7"
USAGE = {"input_tokens": 5, "cached_input_tokens": 0, "output_tokens": 3}

Event = tuple[str, dict[str, Any]]


def delta(offset: int, text: str) -> Event:
    return "text.delta", {"index": 0, "offset": offset, "delta": text}


def completed() -> Event:
    return "completed", {"usage": USAGE, "finish_reason": "stop"}


class EdgeDouble:
    """`events` are streamed, ids `1-1`, `1-2`, …; each connection ends after the next of `cuts`."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.cuts: list[int] = []
        self.refusal: tuple[int, dict[str, Any]] | None = None
        self.hold_before: int | None = None
        """Nothing is sent from this event on until a cancel came; then only the terminal."""
        self.cancelled = threading.Event()
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.bodies: list[dict[str, Any]] = []
        self.url = ""

    def frames(self, after: int) -> Iterator[bytes]:
        for at, (name, data) in enumerate(self.events, 1):
            if at <= after:
                continue
            if self.hold_before is not None and at >= self.hold_before:
                assert self.cancelled.wait(20), "nobody cancelled"
                name, data = "cancelled", {"usage": USAGE}
            yield self.frame(f"1-{at}", name, at, data)
            if name == "cancelled":
                return

    @staticmethod
    def frame(event_id: str, name: str, sequence: int, data: dict[str, Any]) -> bytes:
        whole = {"generation_id": GENERATION_ID, "sequence": sequence, **data}
        line = f"id: {event_id}\n" if event_id else ""
        return f"{line}event: generation.{name}\ndata: {json.dumps(whole)}\n\n".encode()


class Server(ThreadingHTTPServer):
    """Knows its edge, so that each connection's answer does."""

    daemon_threads = True

    def __init__(self, edge: EdgeDouble) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.edge = edge


class Exchange(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests need no access log."""

    def do_POST(self) -> None:
        edge = self.server.edge
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._note()
        if self.path.endswith("/cancel"):
            edge.cancelled.set()
            self._document(202, {"status": "cancel_requested"})
        elif edge.refusal is not None:
            self._document(*edge.refusal)
        else:
            edge.bodies.append(json.loads(body))
            created = edge.frame("", "created", 0, {"status": "queued"})
            self._stream([created], 0)

    def do_GET(self) -> None:
        self._note()
        last = self.headers.get("Last-Event-ID", "1-0")
        self._stream([b": keep-alive\n\n"], int(last.partition("-")[2]))

    def _note(self) -> None:
        self.server.edge.asked.append((self.command, self.path, dict(self.headers)))

    def _document(self, status: int, document: dict[str, Any]) -> None:
        raw = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, before: list[bytes], after: int) -> None:
        edge = self.server.edge
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Generation-Id", GENERATION_ID)
        self.send_header("Connection", "close")
        self.end_headers()
        left = edge.cuts.pop(0) if edge.cuts else None
        for frame in chain(before, edge.frames(after)):
            if left == 0:
                self.wfile.write(frame[: len(frame) // 2])  # cut in the middle of a frame
                break
            self.wfile.write(frame)
            self.wfile.flush()
            left = None if left is None else left - 1
        self.close_connection = True


@contextmanager
def serving(edge: EdgeDouble) -> Iterator[EdgeDouble]:
    """The edge, listening."""
    server = Server(edge)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    edge.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield edge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
