"""The public server: our own socket, uvicorn without its signals, a drain with a deadline.

Owns listening and leaving. A stream that is not over by the deadline is cut, and its client goes
on at another edge from the last id it saw.
"""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Generator
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from edge.hub import Hub
from edge.protocol import EdgeProtocol

BACKLOG: Final = 2_048
IDLE_S_MAX: Final = 65
UNSENT_MS_MAX: Final = 60_000
FORCE_S: Final = 3.0
"""From the drain's end until tasks are cancelled by force."""


class EdgeServer(uvicorn.Server):
    """Signals are the process's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def allow_many_sockets() -> None:
    """Raises the bound of open files to what the system lets this process have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def listen(host: str, port: int, send_bytes: int) -> socket.socket:
    """A listening socket; every connection inherits its small send buffer.

    Raises:
        OSError: the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_bytes)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNSENT_MS_MAX)
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


def make_server(app: ASGIApp, drain_s: float) -> EdgeServer:
    return EdgeServer(
        uvicorn.Config(
            app,
            http=EdgeProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            loop="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_S_MAX,
            timeout_graceful_shutdown=int(drain_s + FORCE_S),
            backlog=BACKLOG,
        )
    )


async def serve(
    server: EdgeServer, listening: socket.socket, hub: Hub, drain_s: float, stop: asyncio.Event
) -> None:
    """Serves until `stop`, then takes no new connection and lets streams end until the deadline."""
    running = asyncio.create_task(server.serve([listening]))
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    server.should_exit = True
    done, _ = await asyncio.wait({running}, timeout=drain_s)
    if not done:
        hub.end_all("drain")
    await running
