"""What the supervisor is told of one part, and what it tells of it. Values only."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Mapping

import msgspec


class NotReady(Exception):
    """A part is not ready yet; the message says what was seen, in a few words."""


Ready = Callable[[], Awaitable[None]]
"""Returns when the part serves; raises `NotReady` while it does not. Bounded in time by itself."""


class State(enum.StrEnum):
    """Where a part is in its life."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    DONE = "done"
    BACKING_OFF = "backing off"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the stack."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = {}
    ready: Ready | None = None
    """None: ready as soon as it runs. A part with `once` is ready when it exits with 0."""
    watch: Ready | None = None
    """A cheap look, repeated while the part runs; what it finds is shown, never acted upon."""
    after: tuple[str, ...] = ()
    once: bool = False
    critical: bool = True
    """The stack is ready when every critical part is, and gives up when one cannot start."""
    refuses: tuple[int, ...] = ()
    """Exit statuses of a step that end the whole stack at once: going on would do harm."""
    port: int | None = None
    start_s_max: float = 90.0
    stop_s_max: float = 8.0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One part as `milena status` shows it. `since` is a Unix time in seconds."""

    name: str
    state: State
    pid: int | None
    port: int | None
    since: float
    restarts: int
    ready: bool
    once: bool
    critical: bool
    took_s: float | None
    """From its start (of the process) until it was ready or done."""
    note: str
    log: str
