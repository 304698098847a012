"""Apicurio Registry on its own file database: configuration, start, health.

Its ids survive a restart and a kill, since every commit is written before it is acknowledged.
Nothing on the way to an answer waits for it.
"""

from __future__ import annotations

from pathlib import Path

from ops.stack.addresses import REGISTRY_PATH
from ops.stack.java import Java
from ops.stack.part import Part
from ops.stack.probes import HOST, http_ok
from ops.stack.settings import StackSettings

# It starts beside the parts on the way to an answer and must not take the cores from them.
POLITE = ("nice", "-n", "10")
HEAP = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def environment(settings: StackSettings) -> dict[str, str]:
    """The server's whole configuration. WRITE_DELAY=0: stock H2 loses half a second of ids."""
    database = settings.data / "registry" / "registry"
    return {
        "QUARKUS_HTTP_HOST": HOST,
        "QUARKUS_HTTP_PORT": str(settings.ports.registry),
        "QUARKUS_HTTP_ACCESS_LOG_ENABLED": "false",
        "QUARKUS_MANAGEMENT_HOST": HOST,
        "QUARKUS_MANAGEMENT_PORT": str(settings.ports.registry_management),
        "APICURIO_STORAGE_KIND": "sql",
        "APICURIO_STORAGE_SQL_KIND": "h2",
        "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{database};WRITE_DELAY=0",
        "APICURIO_DATASOURCE_JDBC_INITIAL_SIZE": "2",
        "APICURIO_DATASOURCE_JDBC_MIN_SIZE": "2",
        "APICURIO_DATASOURCE_JDBC_MAX_SIZE": "10",
    }


def parts(settings: StackSettings, app: Path, java: Java) -> list[Part]:
    """The one server."""
    (settings.data / "registry").mkdir(parents=True, exist_ok=True)

    async def answers() -> None:
        await http_ok(settings.ports.registry, f"{REGISTRY_PATH}/subjects")

    return [
        Part(
            name="registry",
            command=(*POLITE, str(java.binary), *HEAP, "-jar", str(app / "quarkus-run.jar")),
            env=environment(settings),
            ready=answers,
            watch=answers,
            critical=False,
            port=settings.ports.registry,
            start_s_max=300.0,
            stop_s_max=5.0,
        )
    ]
