"""Apache Cassandra as one node: configuration, start, health. JMX stays off.

Keyspaces and tables are never created here; `store migrate` does that.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from ops.stack.files import write_atomically
from ops.stack.java import Java
from ops.stack.part import NotReady, Part
from ops.stack.probes import HOST, exchange
from ops.stack.settings import StackSettings

QUERY_S_MAX = 3.0
DAEMON = "org.apache.cassandra.service.CassandraDaemon"
# A failed disk ends the process, so that the supervisor shows it, rather than a node that refuses.
# The one node has no peer to ask: with the stock commit log (periodic) a kill -9 lost the rows of its last
# tenth of a second, acknowledged ones. Batches cost nothing measurable here (p50 2.8 ms either way).
CONFIGURATION = """\
cluster_name: milena-local
num_tokens: 16
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
listen_address: {host}
rpc_address: {host}
native_transport_port: {port}
storage_port: {storage_port}
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "{host}:{storage_port}"
data_file_directories: ["{home}/data"]
commitlog_directory: "{home}/commitlog"
saved_caches_directory: "{home}/saved_caches"
hints_directory: "{home}/hints"
cdc_raw_directory: "{home}/cdc_raw"
commitlog_sync: batch
commitlog_segment_size: 16MiB
commitlog_total_space: 256MiB
memtable_heap_space: 128MiB
memtable_offheap_space: 128MiB
concurrent_compactors: 1
hinted_handoff_enabled: false
dynamic_snitch: false
auto_snapshot: false
disk_failure_policy: die
commit_failure_policy: die
storage_compatibility_mode: NONE
"""
LOGGING = """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%date{ISO8601} %level %msg \\(%logger{20}\\)%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
</configuration>
"""
EXPORTS = (
    "java.base/jdk.internal.misc",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.base/java.lang.ref",
    "jdk.unsupported/sun.misc",
    "jdk.compiler/com.sun.tools.javac.file",
    "jdk.attach/sun.tools.attach",
)
OPENS = (
    "java.base/java.lang.module",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.util.jar",
    "jdk.management/com.sun.management.internal",
    "java.base/sun.nio.ch",
    "java.base/java.io",
    "java.base/java.lang.reflect",
    "jdk.compiler/com.sun.tools.javac",
    "java.base/java.lang",
    "java.base/java.util",
)
# One node has nobody to gossip with, so it waits for nobody.
PROPERTIES = (
    "-Djdk.attach.allowAttachSelf=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.useCacheForAllThreads=true",
    "-Dio.netty.allocator.maxOrder=11",
    "-Dcassandra.ring_delay_ms=100",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.shutdown_announce_in_ms=0",
)
HEAP = ("-Xms256m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss384k")


def configuration(settings: StackSettings) -> str:
    """The whole cassandra.yaml."""
    return CONFIGURATION.format(
        host=HOST,
        port=settings.ports.cassandra,
        storage_port=settings.ports.cassandra_storage,
        home=settings.data / "cassandra",
    )


def command(home: Path, libs: Path, java: Java) -> tuple[str, ...]:
    """The daemon's command line; `home` holds its configuration and its data."""
    exports = [f"--add-exports={name}=ALL-UNNAMED" for name in EXPORTS]
    opens = [f"--add-opens={name}=ALL-UNNAMED" for name in OPENS]
    agents = sorted(libs.glob("jamm-*.jar"))
    return (
        str(java.binary),
        *HEAP,
        *(f"-javaagent:{agent}" for agent in agents),
        *exports,
        *opens,
        *PROPERTIES,
        f"-Dcassandra.config={(home / 'cassandra.yaml').as_uri()}",
        f"-Dcassandra.storagedir={home}",
        f"-Dlogback.configurationFile={home / 'logback.xml'}",
        *("-cp", f"{libs}/*", DAEMON),
    )


def parts(settings: StackSettings, libs: Path, java: Java) -> list[Part]:
    """The one node."""
    home = settings.data / "cassandra"
    home.mkdir(parents=True, exist_ok=True)
    write_atomically(home / "cassandra.yaml", configuration(settings))
    write_atomically(home / "logback.xml", LOGGING)
    return [
        Part(
            name="cassandra",
            command=command(home, libs, java),
            ready=lambda: ready(settings.ports.cassandra),
            watch=lambda: watch(settings.ports.cassandra),
            port=settings.ports.cassandra,
            start_s_max=180.0,
            stop_s_max=10.0,
        )
    ]


async def watch(port: int) -> None:
    """A cheap look: an OPTIONS frame (version 4, opcode 5) is answered by SUPPORTED (6)."""
    await exchange(port, b"\x04\0\0\0\x05\0\0\0\0", b"\x84\0\0\0\x06")


async def ready(port: int) -> None:
    """Ready when it answers a query over CQL."""
    await watch(port)
    await asyncio.to_thread(_query, port)


def _query(port: int) -> None:
    # Slow to import, and most commands that know this part never ask it anything.
    from cassandra import DriverException
    from cassandra.cluster import Cluster, NoHostAvailable

    # The driver tells of every refused connection; while a node starts that is no news.
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)
    cluster = Cluster([HOST], port=port, connect_timeout=QUERY_S_MAX, executor_threads=1)
    try:
        session = cluster.connect()
        session.execute("SELECT release_version FROM system.local", timeout=QUERY_S_MAX).one()
    except (NoHostAvailable, DriverException, OSError) as error:
        raise NotReady("no answer over CQL yet") from error
    finally:
        cluster.shutdown()
