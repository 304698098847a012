"""One run of the stack, from the lock to the last part stopped. The thin shell around the rest."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping

from ops.stack import install
from ops.stack.artifacts import ARTIFACTS
from ops.stack.fetch import fetch_all
from ops.stack.java import find_java
from ops.stack.part import Report
from ops.stack.plan import plan, prepare
from ops.stack.preflight import Finding, inspect, wanted_infra
from ops.stack.process import reap_leftovers
from ops.stack.settings import StackError, StackSettings
from ops.stack.show import Show
from ops.stack.status import Lock, open_data, write_status
from ops.stack.supervisor import Supervisor
from ops.stack.tools import find_tools
from ops.stack.welcome import welcome

REFUSED = 2
FAILED = 1


class Refused(StackError):
    """The machine is not fit for a start: one line a reason."""


def up(settings: StackSettings, env: Mapping[str, str], show: Show, *, infra_only: bool) -> int:
    """Runs the stack in the foreground until it is told to stop. Returns the exit status."""
    try:
        open_data(settings)
        lock = Lock.take(settings.run)
    except StackError as error:
        show.say(f"error: {error}")
        return REFUSED
    try:
        return asyncio.run(_run(settings, env, show, infra_only=infra_only))
    except Refused as error:
        return _end(show, str(error), REFUSED)
    except StackError as error:
        return _end(show, f"error: {error}", FAILED)
    finally:
        # A cancelled start must give the terminal back as it was.
        show.settled()
        lock.release()


def _end(show: Show, text: str, code: int) -> int:
    show.settled()
    show.say(text)
    return code


async def _run(
    settings: StackSettings, env: Mapping[str, str], show: Show, *, infra_only: bool
) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    prepared = asyncio.create_task(_prepare(settings, env, show, infra_only=infra_only))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait([prepared, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not prepared.done():
        prepared.cancel()
        await asyncio.gather(prepared, return_exceptions=True)
        return 0
    stopping.cancel()
    await prepared
    if stop.is_set():
        return 0
    return await _supervise(settings, env, show, signals, infra_only=infra_only)


async def _prepare(
    settings: StackSettings, env: Mapping[str, str], show: Show, *, infra_only: bool
) -> None:
    for name in reap_leftovers(settings.run):
        show.say(f"{name} was left running by a stack that was killed: stopped")
    wanted = wanted_infra(settings)
    if "redis" in wanted:
        await install.redis_server(env, show.say)
    findings = inspect(settings, env, infra_only=infra_only)
    refuse(findings)
    _tell_tools(findings, show)
    fetched = [name for name in ARTIFACTS if name in wanted and find_java(name, env)]
    await fetch_all(fetched, settings.cache, show.progress)
    prepare(settings)


def refuse(findings: list[Finding]) -> None:
    """Raises:
    Refused: with a line for each thing that is needed and not there.
    """
    lines = [f"error: {f.name}: {f.detail}: {f.fix}" for f in findings if f.needed and not f.ok]
    if lines:
        raise Refused("\n".join(lines))


def _tell_tools(findings: list[Finding], show: Show) -> None:
    """What was found of the tools whose version matters, and what goes on without one."""
    for finding in findings:
        if not finding.name.startswith(("java", "redis")):
            continue
        if finding.ok:
            show.say(f"{finding.name:<19} {finding.detail}")
        else:
            show.say(f"{finding.name:<19} {finding.detail}, so it is left out: {finding.fix}")


async def _supervise(
    settings: StackSettings,
    env: Mapping[str, str],
    show: Show,
    signals: tuple[signal.Signals, ...],
    *,
    infra_only: bool,
) -> int:
    tools = find_tools(settings, wanted_infra(settings), env)
    parts = plan(settings, tools, infra_only=infra_only)
    url = f"http://127.0.0.1:{settings.ports.edge}"
    started_at = time.time()
    ready = False

    def tell(report: Report) -> None:
        show.report(report)
        write_status(settings, url, started_at, supervisor.reports(), ready=ready)

    supervisor = Supervisor(parts, logs=settings.logs, run=settings.run, tell=tell)
    for number in signals:
        asyncio.get_running_loop().add_signal_handler(number, supervisor.ask_to_stop)
    supervisor.start()
    try:
        await supervisor.ready()
        show.settled()
        if not supervisor.stopping:
            ready = True
            write_status(settings, url, started_at, supervisor.reports(), ready=ready)
            served = any(part.name == "edge" for part in parts)
            for line in welcome(settings, time.time() - started_at, edge=served):
                show.say(line)
        await supervisor.wait()
    finally:
        show.settled()
        ready = False
        show.say("stopping; once more kills at once")
        began = time.monotonic()
        await supervisor.stop()
        show.say(f"stopped in {time.monotonic() - began:.1f} s")
    return 0
