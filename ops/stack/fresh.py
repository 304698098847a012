"""A whole stack of one's own, for a test, a benchmark or a drill: own folder, own ports, own end.

Starts `milena up` as a child and reads what it writes; holds no second way to start anything, but may put
another edge beside it. Parts are hurt by pid only, as the status file tells it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from connectors.store.cql import CqlStore
from connectors.store.settings import StoreSettings
from ops.cli.keys_book import new_key, new_row
from ops.stack.beside import says_ready
from ops.stack.part import Report
from ops.stack.ports import taken
from ops.stack.second_edge import SecondEdge
from ops.stack.settings import PORT_OFFSET_MAX, read_settings
from ops.stack.status import Status, read_status
from schemas.generated.types import Tier
from topics.runtime.clock import wall_ms

START_S_MAX: Final = 240.0
STOP_S_MAX: Final = 40.0
EDGE_START_S_MAX: Final = 60.0
_LOOK_S: Final = 0.1
_BASES: Final = range(20_000, 32_000, 100)


class DidNotCome(Exception):
    """A part or the stack was not as awaited within the deadline; the message says where to look."""


def free_base() -> int:
    """The first port base whose whole range is free."""
    for base in _BASES:
        if not any(taken(base + offset) for offset in range(PORT_OFFSET_MAX + 1)):
            return base
    raise DidNotCome(f"no {PORT_OFFSET_MAX} free ports between {_BASES.start} and {_BASES.stop}")


class FreshStack:
    """`start` makes it and waits until it serves; `stop` ends it. Data stays for a second `start`."""

    def __init__(
        self, data: Path, settings: Mapping[str, str] | None = None, base: int | None = None
    ) -> None:
        self.data = data
        self.base = free_base() if base is None else base
        foreign = {name for name in os.environ if name.startswith("MILENA_")}
        kept = {name: value for name, value in os.environ.items() if name not in foreign}
        if "MILENA_STACK_CACHE" in os.environ:
            kept["MILENA_STACK_CACHE"] = os.environ["MILENA_STACK_CACHE"]
        self.env: dict[str, str] = {
            **kept,
            "MILENA_DATA": str(data),
            "MILENA_PORT_BASE": str(self.base),
            "MILENA_SCRIPTED": "1",
            "NO_COLOR": "1",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._edges = itertools.count(1)

    @classmethod
    def attach(cls, data: Path) -> FreshStack:
        """The stack that runs over this folder already; its `stop` leaves it running.

        Raises:
            DidNotCome: none runs there, or it does not serve.
        """
        found = read_status(read_settings({"MILENA_DATA": str(data)}))
        if not found.ready:
            raise DidNotCome(f"no stack serves over {data}: start it with `milena up`")
        return cls(data, base=int(found.url.rpartition(":")[2]))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.base}"

    @property
    def operator_url(self) -> str:
        return f"http://127.0.0.1:{self.base + 1}"

    def start(self) -> None:
        """Starts the stack and returns once it serves.

        Raises:
            DidNotCome: it ended or was not ready in time; the message holds what it printed last.
        """
        self.data.mkdir(parents=True, exist_ok=True)
        output = self.data / "up.log"
        with output.open("ab") as log:
            command = [sys.executable, "-m", "ops.cli.main", "up"]
            self._process = subprocess.Popen(command, env=self.env, stdout=log, stderr=log)
        deadline = time.monotonic() + START_S_MAX
        while not self.status().ready:
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = output.read_text(errors="replace")[-2_000:]
                self.stop()
                raise DidNotCome(f"the stack over {self.data} did not get ready:\n{tail}")
            time.sleep(_LOOK_S)

    def stop(self) -> int:
        """SIGTERM, then SIGKILL past the deadline; returns the exit code."""
        process = self._process
        if process is None:
            return 0
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._process = None
        return process.returncode

    def status(self) -> Status:
        return read_status(read_settings(self.env))

    def part(self, name: str) -> Report:
        """One part as it is now."""
        return next(part for part in self.status().parts if part.name == name)

    def hurt(self, name: str, number: signal.Signals) -> int:
        """Sends a signal to one part by its pid, which is returned."""
        pid = self.part(name).pid
        if pid is None:
            raise DidNotCome(f"{name} does not run, see {self.data / 'logs'}")
        os.kill(pid, number)
        return pid

    def back(self, name: str, old_pid: int, s_max: float = 60.0) -> None:
        """Returns once a part runs under another pid and is ready.

        Raises:
            DidNotCome: not within `s_max` seconds.
        """
        deadline = time.monotonic() + s_max
        while time.monotonic() < deadline:
            report = self.part(name)
            if report.ready and report.pid not in (None, old_pid):
                return
            time.sleep(_LOOK_S)
        raise DidNotCome(f"{name} is not back, see {self.data / 'logs' / name}.log")

    def serving(self, s_max: float = 60.0) -> None:
        """Returns once the edge says that a generation can be served."""
        deadline = time.monotonic() + s_max
        while time.monotonic() < deadline:
            if says_ready(self.base + 1):
                return
            time.sleep(_LOOK_S)
        raise DidNotCome(f"the edge is not ready, see {self.operator_url}/readyz")

    @contextlib.contextmanager
    def second_edge(self, settings: Mapping[str, str] | None = None) -> Iterator[SecondEdge]:
        """Another edge of this stack, serving, with its own settings; gone at the end.

        Raises:
            DidNotCome: it ended or was not ready in time.
        """
        edge = SecondEdge(self.env, next(self._edges), settings or {}, self.data / "logs")
        edge.start()
        try:
            if not edge.came(EDGE_START_S_MAX):
                raise DidNotCome(f"the second edge is not ready, see {edge.log}")
            yield edge
        finally:
            edge.stop()

    def milena(self, *words: str) -> str:
        """Runs one `milena` command against this stack and returns what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "ops.cli.main", *words],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise DidNotCome(
                f"milena {' '.join(words)} ended with {done.returncode}: {done.stderr}"
            )
        return done.stdout

    def seeded_keys(self) -> dict[str, str]:
        """The keys that the stack wrote, by tier."""
        return msgspec.json.decode((self.data / "keys.json").read_bytes(), type=dict[str, str])

    def new_key(self, tier: str = "paid") -> str:
        """A key of a user of its own."""
        return self.new_keys(1, tier)[0]

    def new_keys(self, count: int, tier: str = "paid") -> list[str]:
        """As many keys, each of a user of its own; in one connection, for tools that need many."""
        with ThreadPoolExecutor(1) as apart:  # the caller may be inside a loop of its own
            return apart.submit(asyncio.run, self._make_keys(count, Tier(tier))).result()

    async def _make_keys(self, count: int, tier: Tier) -> list[str]:
        secret = bytes.fromhex((self.data / "secret").read_text(encoding="ascii").strip())
        store = await CqlStore.open(StoreSettings(port=read_settings(self.env).ports.cassandra))
        keys = [new_key(os.urandom) for _ in range(count)]
        try:
            for key in keys:
                row = new_row(key, secret, tier, "fresh", wall_ms(), os.urandom)
                await store.put_key(row)
        finally:
            await store.close()
        return keys
