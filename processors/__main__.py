"""`python -m processors <machine>`: runs one machine until SIGTERM. Owns its start, health and end.

Exit codes: 0 after SIGTERM; 2 for bad settings, topics or a past that is not ours; 70 where only a restart
helps (a failed send, a crashed agent, a start past its deadline); 75 where its partitions may be another's
or its offset stands still.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, Final, NoReturn

import structlog
import uvloop

from processors.machines import MACHINES
from processors.shell import Shell
from topics.errors import PastUnknown, SettingsError, TopologyError
from topics.registry import CHANGELOGS, DEAD_LETTERS
from topics.runtime import logs, pace, settings
from topics.runtime.clock import wall_ms
from topics.runtime.operator import OperatorPort
from topics.topology import check

if TYPE_CHECKING:
    from processors.transport.tenure import Gate

EXIT_REFUSED: Final = 2
EXIT_RESTART: Final = 70
STOP_S_MAX: Final = 8.0
TICK_S: Final = 0.05
FIRST: Final = asyncio.FIRST_COMPLETED
_log = structlog.get_logger()


def _end(reason: str, code: int) -> NoReturn:
    _log.error("machine ends", reason=reason, code=code)
    sys.stdout.flush()
    os._exit(code)


async def _run(name: str) -> None:
    # Faust is imported after the loop's policy is set.
    from processors.app import make
    from processors.transport.watch import Watch

    kafka = settings.read(settings.KafkaSettings, "KAFKA", os.environ)
    process = settings.read(settings.ProcessSettings, "PROCESS", os.environ)
    machine = MACHINES[name](os.environ)
    check(kafka.bootstrap, [machine.inbox, CHANGELOGS[name], DEAD_LETTERS[name]], kafka.local)
    folder = Path(os.environ.get("MILENA_DATA", ".milena")) / "machines" / name
    folder.mkdir(parents=True, exist_ok=True)
    app, shell = make(machine, kafka, process.incarnation_name, folder, _end)
    gate, watch = app.tenure.gate, Watch(app)
    health = OperatorPort(
        "127.0.0.1",
        process.operator_port,
        lambda: {} if gate.is_open else {"table": "recovering"},
    )
    health.start()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    app.finalize()
    tasks = [
        asyncio.create_task(shell.acknowledge_forever()),
        asyncio.create_task(watch.fence_for_ever()),
        asyncio.create_task(watch.for_ever()),
        asyncio.create_task(_keep_time(shell, gate)),
        asyncio.create_task(_start(app)),
    ]
    stopping = asyncio.create_task(stop.wait())
    tasks.append(asyncio.create_task(_bound_closed(gate, process.start_s_max)))
    await asyncio.wait([stopping, asyncio.create_task(gate.opened()), *tasks], return_when=FIRST)
    if gate.is_open:
        pace.serve()
        _log.info("machine folds", machine=name, keys=len(shell.deadlines))
    done, _ = await asyncio.wait([stopping, *tasks], return_when=FIRST)
    if stopping not in done:
        failed = next(iter(done)).exception()
        _end(f"a task of the machine ended by itself: {_told(failed)}", EXIT_RESTART)
    try:
        async with asyncio.timeout(STOP_S_MAX):
            await gate.close()
            await shell.drain()
            await app.stop()
    except TimeoutError:
        _log.warning("stop passed its deadline", machine=name)
    # What was not acknowledged is read again: an exit here is as good as any.
    os._exit(0)


def _told(error: BaseException | None) -> str:
    """What failed and where; never the error's own text, which may hold a record's."""
    if error is None:
        return "no error"
    places = [f"{Path(at.filename).name}:{at.lineno}" for at in extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {' '.join(places[-3:])}"


async def _start(app: Any) -> None:
    """Ends only with the app."""
    await app.start()
    await app.wait_until_stopped()


async def _bound_closed(gate: "Gate", closed_s_max: float) -> None:
    """Ends a process that is kept from folding for too long: at its start, or between assignments."""
    while True:
        try:
            await asyncio.wait_for(gate.opened(), closed_s_max)
        except TimeoutError:
            _end("kept from folding past the deadline", EXIT_RESTART)
        await gate.closed()


async def _keep_time(shell: Shell[Any], gate: "Gate") -> None:
    while True:
        async with gate:
            await shell.append_dues(wall_ms())
            await shell.forget_ended()
        await asyncio.sleep(TICK_S)


def main() -> None:
    name = sys.argv[1] if len(sys.argv) == 2 else ""
    if name not in MACHINES:
        print(f"usage: python -m processors {'|'.join(MACHINES)}", file=sys.stderr)  # noqa: T201
        raise SystemExit(EXIT_REFUSED)
    logs.configure(name)
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    try:
        asyncio.run(_run(name))
    except (PastUnknown, SettingsError, TopologyError) as error:
        _log.error("machine refuses to start", reason=str(error))
        raise SystemExit(EXIT_REFUSED) from None


if __name__ == "__main__":
    main()
