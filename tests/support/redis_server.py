"""A real redis-server for tests: free port, own folder, ended with the test. Starts in 50 ms.

@pytest.fixture
def server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server
"""

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_S_MAX = 10.0


class RedisServer:
    """One server process. `start` after `stop` uses the same port; data is not kept."""

    def __init__(self, home: Path, port: int, options: dict[str, str]) -> None:
        self._home = home
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Returns once the server answers."""
        defaults = {
            "bind": "127.0.0.1",
            "port": str(self.port),
            "dir": str(self._home),
            "save": "",
            "appendonly": "no",
            "maxmemory-policy": "noeviction",
            "enable-debug-command": "local",
        }
        command = [shutil.which("redis-server") or "redis-server"]
        for name, value in (defaults | self._options).items():
            command += [f"--{name}", value]
        with (self._home / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        until = time.monotonic() + START_S_MAX
        while self.raw(b"PING") != b"+PONG\r\n":
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"redis-server did not start: {self.log()}")
            time.sleep(0.01)

    def stop(self) -> None:
        """Kills the server; clients see their connections break."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def raw(self, *words: bytes, timeout_s: float = 5.0) -> bytes:
        """The first answer bytes to one command, or b"" where nobody listens."""
        command = b"*%d\r\n" % len(words) + b"".join(
            b"$%d\r\n%s\r\n" % (len(word), word) for word in words
        )
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=timeout_s) as link:
                link.sendall(command)
                return link.recv(65_536)
        except OSError:
            return b""

    def send_only(self, *words: bytes) -> socket.socket:
        """Sends one command and does not wait for its answer; close the socket afterwards."""
        link = socket.create_connection(("127.0.0.1", self.port), timeout=5.0)
        link.sendall(
            b"*%d\r\n" % len(words)
            + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
        )
        link.settimeout(30.0)  # it may have asked for a sleep of as long as a call may take
        return link

    def log(self) -> str:
        return (self._home / "redis.log").read_text(errors="replace")


@contextlib.contextmanager
def running_redis(**options: str) -> Iterator[RedisServer]:
    """A server that is ended when the block is left; options in redis.conf's words, `_` for `-`."""
    home = Path(tempfile.mkdtemp(prefix="redis-test-"))
    named = {name.replace("_", "-"): value for name, value in options.items()}
    server = RedisServer(home, free_port(), named)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
