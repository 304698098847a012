"""Where the local stack's parts are, as the variables that every process and command of ours reads."""

from __future__ import annotations

from typing import Final

from ops.stack.settings import StackSettings

HOST: Final = "127.0.0.1"
KEYSPACE: Final = "milena"
REGISTRY_PATH: Final = "/apis/ccompat/v7"
"""The registry's Confluent interface."""


def addresses(settings: StackSettings, *, with_registry: bool = True) -> dict[str, str]:
    """Variable -> value. Without a registry its URL is empty: ids come from the committed snapshot."""
    ports = settings.ports
    registry = f"http://{HOST}:{ports.registry}{REGISTRY_PATH}" if with_registry else ""
    return {
        "MILENA_DATA": str(settings.data),
        "MILENA_PORT_BASE": str(settings.port_base),
        "MILENA_EDGE_PORT": str(ports.edge),
        "MILENA_EDGE_OPERATOR_PORT": str(ports.edge_operator),
        "MILENA_EDGE_SECRET_FILE": str(settings.data / "secret"),
        "MILENA_KAFKA_BOOTSTRAP": f"{HOST}:{ports.kafka}",
        "MILENA_REDIS_URL": f"redis://{HOST}:{ports.redis}/0",
        "MILENA_STORE_HOSTS": HOST,
        "MILENA_STORE_PORT": str(ports.cassandra),
        "MILENA_STORE_KEYSPACE": KEYSPACE,
        "MILENA_REGISTRY_URL": registry,
    }


def through_proxies(settings: StackSettings) -> dict[str, str]:
    """The same three, each behind the proxy that stands before it."""
    ports = settings.proxied_ports
    return {
        "MILENA_KAFKA_BOOTSTRAP": f"{HOST}:{ports.kafka}",
        "MILENA_REDIS_URL": f"redis://{HOST}:{ports.redis}/0",
        "MILENA_STORE_PORT": str(ports.cassandra),
    }
