"""The only Faust app: one machine, one agent, one table. Owns Faust's settings and nothing else.

Never uses exactly_once, group_by, take, windows, global tables, LiveCheck or Faust's web server.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import faust

from processors.faust_log import FaustLog, FaustTable
from processors.machine import Machine
from processors.shell import Incoming, Shell
from topics.registry import CHANGELOGS
from topics.runtime.clock import elapsed_s
from topics.runtime.settings import KafkaSettings


class Running(NamedTuple):
    """A machine's Faust app and the shell inside it."""

    app: faust.App
    shell: Shell[Any]


def make(
    machine: Machine[Any],
    kafka: KafkaSettings,
    instance: str,
    folder: Path,
    fatal: Callable[[str], None],
    recovered: Callable[[], None],
    topic_id: str,
) -> Running:
    """Wires one machine. `topic_id` is Kafka's id of its inbox. `recovered` is called whenever its table
    is whole and folding may begin.

    `instance` is the member's static name: one started again takes its partitions back at once (2 s
    instead of a session timeout here), and a second one under the same name fences the first.
    """
    app = _faust_app(machine.name, kafka.bootstrap, instance, folder)
    inbox = app.topic(
        machine.inbox.name,
        key_type=bytes,
        value_type=bytes,
        key_serializer="raw",
        value_serializer="raw",
    )
    partitions = machine.inbox.ring.partitions(kafka.local)
    table = app.Table(
        "state",
        key_type=bytes,
        value_type=bytes,
        partitions=partitions,
    )
    assert table.changelog_topic_name == CHANGELOGS[machine.name].name
    log = FaustLog(app, machine.inbox.name)
    shell: Shell[Any] = Shell(
        machine, FaustTable(table, partitions), log, fatal, local=kafka.local, elapsed_s=elapsed_s
    )

    @table.on_recover  # type: ignore[untyped-decorator]
    async def _whole() -> None:
        owned = {tp.partition for tp in app.consumer.assignment() if tp.topic == machine.inbox.name}
        await shell.recovered(owned, topic_id)
        recovered()

    # Faust's default supervisor for an agent is the crashing one: a failed fold ends the process.
    @app.agent(inbox, concurrency=1)  # type: ignore[untyped-decorator]
    async def fold(stream: Any) -> None:
        async for event in stream.noack().events():
            message = event.message
            await shell.take(
                Incoming(
                    message.partition,
                    message.offset,
                    round(message.timestamp * 1_000),
                    (message.key or b"").decode("utf-8", "replace"),
                    message.value,
                ),
                event.ack,
            )

    return Running(app, shell)


def _faust_app(name: str, bootstrap: str, instance: str, folder: Path) -> faust.App:
    return faust.App(
        f"milena-{name}",
        broker=f"milena://{bootstrap}",
        store="memory://",
        datadir=str(folder),
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        table_standby_replicas=0,
        processing_guarantee="at_least_once",
        key_serializer="raw",
        value_serializer="raw",
        stream_wait_empty=False,
        stream_buffer_maxsize=512,
        consumer_group_instance_id=instance,
        broker_session_timeout=10.0,
        broker_heartbeat_interval=3.0,
        broker_request_timeout=30.0,
        broker_commit_interval=1.0,
        broker_max_poll_interval=60.0,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
        producer_linger=0,
        producer_max_request_size=4 * 1_048_576,
    )
