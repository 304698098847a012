"""`python -m processors <machine>`: runs one machine until SIGTERM. Owns its start, health and end.

Exit codes: 0 after SIGTERM, 2 for bad settings or topics, 70 where only a restart helps (a failed send,
a crashed agent, a recovery past its deadline).
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog
import uvloop

from processors.machines import MACHINES
from processors.shell import Shell
from topics.errors import PastUnknown, SettingsError, TopologyError
from topics.registry import CHANGELOGS, DEAD_LETTERS
from topics.runtime import logs, pace, settings
from topics.runtime.clock import wall_ms
from topics.runtime.operator import OperatorPort
from topics.topology import check, topic_id

EXIT_REFUSED: Final = 2
EXIT_RESTART: Final = 70
STOP_S_MAX: Final = 8.0
TICK_S: Final = 0.05
_log = structlog.get_logger()


def _die(reason: str) -> NoReturn:
    _log.error("machine ends", reason=reason)
    sys.stdout.flush()
    os._exit(EXIT_RESTART)


async def _run(name: str) -> None:
    from processors.app import make  # Faust is imported after the loop's policy is set

    kafka = settings.read(settings.KafkaSettings, "KAFKA", os.environ)
    process = settings.read(settings.ProcessSettings, "PROCESS", os.environ)
    machine = MACHINES[name](os.environ)
    check(kafka.bootstrap, [machine.inbox, CHANGELOGS[name], DEAD_LETTERS[name]], kafka.local)
    inbox_id = topic_id(kafka.bootstrap, machine.inbox)
    whole = asyncio.Event()
    folder = Path(os.environ.get("MILENA_DATA", ".milena")) / "machines" / name
    folder.mkdir(parents=True, exist_ok=True)
    app, shell = make(machine, kafka, process.incarnation_name, folder, _die, whole.set, inbox_id)
    health = OperatorPort(
        "127.0.0.1",
        process.operator_port,
        lambda: {} if whole.is_set() and not app.rebalancing else {"table": "recovering"},
    )
    health.start()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    app.finalize()
    await asyncio.wait_for(app.start(), process.start_s_max)
    tasks = [
        asyncio.create_task(shell.acknowledge_forever()),
        asyncio.create_task(_keep_time(shell, whole)),
        asyncio.create_task(app.wait_until_stopped()),
    ]
    try:
        async with asyncio.timeout(process.start_s_max):
            await _first(whole, stop)
    except TimeoutError:
        _die("recovery passed its deadline")
    pace.serve()
    _log.info("machine folds", machine=name, keys=len(shell.deadlines))
    stopping = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
    if stopping not in done:
        _die("a task of the machine ended by itself")
    try:
        await asyncio.wait_for(app.stop(), STOP_S_MAX)
    except TimeoutError:
        _log.warning("stop passed its deadline", machine=name)
    # What was not acknowledged is read again: an exit here is as good as any.
    os._exit(0)


async def _keep_time(shell: Shell[Any], whole: asyncio.Event) -> None:
    await whole.wait()
    while True:
        await shell.append_dues(wall_ms())
        await shell.forget_ended()
        await asyncio.sleep(TICK_S)


async def _first(*events: asyncio.Event) -> None:
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()


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
