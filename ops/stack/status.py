"""What runs, as the supervisor writes it down and `milena status` reads it; and the lock.

The lock on the data folder is what proves that a stack runs: it goes with its process, however
that ends. The status file beside it is only as good as the lock.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from ops.stack.files import private_folder, write_atomically
from ops.stack.part import Report, State
from ops.stack.process import alive
from ops.stack.settings import StackError, StackSettings


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The stack over one data folder. Times are Unix seconds."""

    running: bool
    ready: bool
    pid: int | None
    url: str
    data: str
    started_at: float | None
    parts: tuple[Report, ...]


class Lock:
    """Held by the one supervisor of a data folder for as long as it lives."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    def take(cls, run: Path) -> Lock:
        """Takes it for this process.

        Raises:
            StackError: when another stack has it.
        """
        descriptor = os.open(run / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise StackError(
                f"a stack already runs on {run.parent} (pid {_holder(run) or 'unknown'}): "
                "stop it with `milena down`, or set MILENA_DATA and MILENA_PORT_BASE for a second"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Gives it back."""
        os.close(self._descriptor)


def running_pid(settings: StackSettings) -> int | None:
    """The supervisor's pid, or None when no stack runs over this data."""
    path = settings.run / "lock"
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(settings.run)
    finally:
        os.close(descriptor)
    return None


def write_status(
    settings: StackSettings, url: str, started_at: float, parts: list[Report], *, ready: bool
) -> None:
    """Replaces the status file."""
    status = Status(
        running=True,
        ready=ready,
        pid=os.getpid(),
        url=url,
        data=str(settings.data),
        started_at=started_at,
        parts=tuple(parts),
    )
    text = msgspec.json.encode(status).decode()
    write_atomically(settings.run / "status.json", text, sync=False)


def read_status(settings: StackSettings) -> Status:
    """The stack as it is: what the file says is checked against the lock and the processes."""
    pid = running_pid(settings)
    try:
        told = msgspec.json.decode((settings.run / "status.json").read_bytes(), type=Status)
    except (FileNotFoundError, msgspec.DecodeError):
        told = None
    if told is None or (pid is not None and told.pid != pid):
        return Status(
            running=pid is not None,
            ready=False,
            pid=pid,
            url="",
            data=str(settings.data),
            started_at=None,
            parts=(),
        )
    parts = tuple(_checked(settings, part, pid is not None) for part in told.parts)
    ready = pid is not None and told.ready and all(p.ready for p in parts if p.critical)
    return msgspec.structs.replace(told, running=pid is not None, ready=ready, pid=pid, parts=parts)


def _checked(settings: StackSettings, part: Report, running: bool) -> Report:
    if part.pid is not None and alive(settings.run / f"{part.name}.pid") == part.pid:
        return part
    if running and part.pid is None:
        return part
    state = part.state if part.once else State.STOPPED
    return msgspec.structs.replace(part, state=state, pid=None, ready=False)


def _holder(run: Path) -> int | None:
    try:
        return int((run / "lock").read_text())
    except ValueError:
        return None


def open_data(settings: StackSettings) -> None:
    """Makes the data folder and those inside that every start needs.

    Raises:
        StackError: when that is not possible.
    """
    try:
        for folder in (settings.data, settings.logs, settings.run):
            private_folder(folder)
    except OSError as error:
        raise StackError(
            f"{settings.data} cannot be made ({error.strerror}): point MILENA_DATA elsewhere"
        ) from error
