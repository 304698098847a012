"""Apache Kafka as one broker that is its own controller: configuration, format, start, health.

Topics are never created here; `topics apply` does that.
"""

from __future__ import annotations

import asyncio
import base64
import struct
import uuid
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ops.stack.files import write_atomically
from ops.stack.java import Java
from ops.stack.part import NotReady, Part
from ops.stack.probes import HOST, exchange
from ops.stack.settings import StackSettings

METADATA_S_MAX = 3.0
CORRELATION = 0x4D494C45
HEAP = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# One broker: every internal topic has one replica and few partitions. Groups keep their offsets
# for a year, so that a stack left alone for weeks goes on where it stopped. A killed broker may
# register again only once its old session is over, so sessions are short (stock: 9 s).
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=CLIENT://{host}:{port}{behind},CONTROLLER://{host}:{controller}
advertised.listeners=CLIENT://{host}:{port}{proxied}
listener.security.protocol.map=CLIENT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
log.dirs={logs}
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=1
offsets.topic.num.partitions=4
offsets.topic.replication.factor=1
offsets.retention.minutes=525600
transaction.state.log.num.partitions=2
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=6000
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
num.network.threads=2
num.io.threads=4
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=33554432
"""
LOGGING = """\
status=warn
appender.console.type=Console
appender.console.name=console
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d{ISO8601} %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.console.ref=console
"""


def server_properties(settings: StackSettings) -> str:
    """The broker's configuration. Who comes in by a proxy is sent back to the proxy: a broker tells its
    clients where to go on, and a second listener tells another place."""
    ports, proxied = settings.proxied_ports, bool(settings.proxied)
    return PROPERTIES.format(
        host=HOST,
        port=settings.ports.kafka,
        behind=f",PROXIED://{HOST}:{ports.kafka_behind}" if proxied else "",
        proxied=f",PROXIED://{HOST}:{ports.kafka}" if proxied else "",
        controller=settings.ports.kafka_controller,
        logs=settings.data / "kafka" / "log",
    )


def parts(settings: StackSettings, libs: Path, java: Java) -> list[Part]:
    """The broker, and before it the one-shot format of its storage where it has none yet."""
    home = settings.data / "kafka"
    home.mkdir(parents=True, exist_ok=True)
    properties = home / "server.properties"
    write_atomically(properties, server_properties(settings))
    write_atomically(home / "log4j2.properties", LOGGING)
    base = (str(java.binary), f"-Dlog4j2.configurationFile={home / 'log4j2.properties'}")
    classpath = ("-cp", f"{libs}/*")
    found = []
    formatted = (home / "log" / "meta.properties").is_file()
    if not formatted:
        storage = ("kafka.tools.StorageTool", "format", "--ignore-formatted")
        found.append(
            Part(
                name="kafka-format",
                command=(
                    *base,
                    "-XX:TieredStopAtLevel=1",
                    *classpath,
                    *storage,
                    *("-t", cluster_id(uuid.uuid4()), "-c", str(properties)),
                ),
                once=True,
            )
        )
    found.append(
        Part(
            name="kafka",
            command=(*base, *HEAP, *classpath, "kafka.Kafka", str(properties)),
            ready=lambda: ready(settings.ports.kafka),
            watch=lambda: watch(settings.ports.kafka),
            after=() if formatted else ("kafka-format",),
            port=settings.ports.kafka,
        )
    )
    return found


def cluster_id(made: uuid.UUID) -> str:
    """Kafka's way to write an id: 22 characters, never a leading dash (an option to its tool)."""
    text = base64.urlsafe_b64encode(made.bytes).rstrip(b"=").decode("ascii")
    return "A" + text[1:] if text.startswith("-") else text


async def watch(port: int) -> None:
    """A cheap look: an ApiVersions request (key 18, version 0) echoes its correlation id."""
    request = struct.pack(">ihhih", 10, 18, 0, CORRELATION, -1)
    await exchange(port, request, struct.pack(">i", CORRELATION), skip=4)


async def ready(port: int) -> None:
    """Ready when the broker answers a metadata request with itself in it."""
    await watch(port)
    await asyncio.to_thread(_metadata, port)


def _metadata(port: int) -> None:
    client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    try:
        metadata = client.list_topics(timeout=METADATA_S_MAX)
    except KafkaException as error:
        raise NotReady("no metadata yet") from error
    if not metadata.brokers:
        raise NotReady("no broker in the metadata yet")
