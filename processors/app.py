"""One machine under Faust: one agent, one table, one shell. Owns the wiring and nothing else."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from processors.faust_log import FaustLog, FaustTable
from processors.machine import Machine
from processors.shell import Incoming, Shell
from processors.transport.app import App
from processors.transport.plain import Plain
from processors.transport.tenure import EXIT_RESTART, End
from topics.registry import CHANGELOGS
from topics.runtime.clock import elapsed_s
from topics.runtime.settings import KafkaSettings


class Running(NamedTuple):
    """A machine's Faust app and the shell inside it."""

    app: App
    shell: Shell[Any]


def make(
    machine: Machine[Any], kafka: KafkaSettings, instance: str, folder: Path, end: End
) -> Running:
    """Wires one machine. `instance` is its static name in the group."""
    changelog = CHANGELOGS[machine.name]
    app = App(machine.name, machine.inbox, changelog, kafka.bootstrap, instance, folder, end)
    inbox = app.topic(machine.inbox.name, schema=Plain())
    partitions = machine.inbox.ring.partitions(kafka.local)
    table = app.Table("state", key_type=bytes, value_type=bytes, partitions=partitions)
    assert table.changelog_topic_name == changelog.name
    app.store = rows = FaustTable(table, partitions)
    fatal: Callable[[str], None] = partial(_restart, end)
    log = FaustLog(app, machine.inbox.name)
    shell: Shell[Any] = Shell(machine, rows, log, fatal, local=kafka.local, elapsed_s=elapsed_s)
    app.recovered, app.put_again = shell.recovered, shell.put_again
    app.tenure.drain = shell.drain

    # Faust's default supervisor for an agent is the crashing one: a failed fold ends the process.
    @app.agent(inbox, concurrency=1)  # type: ignore[untyped-decorator]
    async def fold(stream: Any) -> None:
        consumer, tenure = app.consumer, app.tenure
        async for event in stream.noack().events():
            message = event.message
            async with tenure.gate:
                if not consumer.holds(message):
                    continue  # taken under an assignment that ended: it is read again
                tenure.check()
                incoming = Incoming(
                    message.partition,
                    message.offset,
                    round(message.timestamp * 1_000),
                    (message.key or b"").decode("utf-8", "replace"),
                    message.value,
                )
                await shell.take(incoming, partial(consumer.acknowledged, message))

    return Running(app, shell)


def _restart(end: End, reason: str) -> None:
    end(reason, EXIT_RESTART)
