"""CPU seconds by part, from the operating system's own accounts. Owns no clock."""

from __future__ import annotations

import psutil

from ops.stack.status import Status


def by_part(status: Status) -> dict[str, float]:
    """CPU seconds each running part has used so far, user and system together."""
    used: dict[str, float] = {}
    for part in status.parts:
        if part.pid is None:
            continue
        try:
            times = psutil.Process(part.pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        used[part.name] = times.user + times.system
    return used


def difference(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What each part used in between; a part that was restarted counts from its start."""
    return {
        name: used - before.get(name, 0.0) if used >= before.get(name, 0.0) else used
        for name, used in after.items()
    }
