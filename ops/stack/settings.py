"""Where the local stack lives: ports, folders and the parts asked for, read from the environment.

Owns `MILENA_STACK_…`, the port base and the data folder. It reads; it never creates a folder and
never looks at the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from topics.runtime.settings import read

# Offsets from the base. The machines, the closer and the workers follow at +20: see plan.py.
PORT_OFFSETS = {
    "edge": 0,
    "edge_operator": 1,
    "kafka": 10,
    "kafka_controller": 11,
    "cassandra": 12,
    "cassandra_storage": 13,
    "redis": 14,
    "registry": 15,
    "registry_management": 16,
}
PORT_OFFSET_MAX = 40
# The broker's second listener, and where a fault proxy stands before each of the three.
PROXIED_OFFSETS = {"kafka_behind": 33, "kafka": 34, "redis": 35, "cassandra": 36}

Port = Annotated[int, Meta(ge=1024, le=65535)]


class StackError(Exception):
    """One line for the person at the terminal: what is wrong and what to do about it."""


class StackSection(msgspec.Struct, frozen=True, kw_only=True):
    """`MILENA_STACK_…`. A port given here moves that part alone."""

    cache: str = "~/.cache/milena/stack"
    parts: str = ""
    """Names with commas between them; empty means every part."""
    proxied: str = ""
    """Those of our processes that reach Kafka, Redis and the store through proxies. Whoever sets this
    runs them (`milena drill` does); names with commas between them."""
    redis_memory_mb: Annotated[int, Meta(ge=16, le=65536)] = 512
    kafka_port: Port | None = None
    kafka_controller_port: Port | None = None
    cassandra_port: Port | None = None
    cassandra_storage_port: Port | None = None
    redis_port: Port | None = None
    registry_port: Port | None = None
    registry_management_port: Port | None = None


class GlobalSection(msgspec.Struct, frozen=True, kw_only=True):
    """The names without a section that the stack obeys, and the edge's two ports."""

    port_base: Annotated[int, Meta(ge=1024, le=65535 - PORT_OFFSET_MAX)] = 8000
    data: str = ".milena"
    scripted: bool = False
    edge_port: Port | None = None
    edge_operator_port: Port | None = None


class Ports(msgspec.Struct, frozen=True):
    """TCP ports on loopback."""

    edge: int
    edge_operator: int
    kafka: int
    kafka_controller: int
    cassandra: int
    cassandra_storage: int
    redis: int
    registry: int
    registry_management: int


class ProxiedPorts(msgspec.Struct, frozen=True):
    """Where proxies listen, and the broker's listener that leads back through its own."""

    kafka_behind: int
    kafka: int
    redis: int
    cassandra: int


class StackSettings(msgspec.Struct, frozen=True):
    """Everything the stack is told from outside. Paths are absolute."""

    data: Path
    cache: Path
    port_base: int
    ports: Ports
    parts: tuple[str, ...]
    """Only these parts; empty means all."""
    scripted: bool
    redis_memory_mb: int
    proxied: tuple[str, ...] = ()
    """Our processes behind proxies; none on a stack that serves people."""

    @property
    def proxied_ports(self) -> ProxiedPorts:
        return ProxiedPorts(**{n: self.port_base + o for n, o in PROXIED_OFFSETS.items()})

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def run(self) -> Path:
        return self.data / "run"


def port_variable(name: str) -> str:
    """The variable that moves one port by itself."""
    owner = "MILENA_" if name.startswith("edge") else "MILENA_STACK_"
    return f"{owner}{name.upper()}_PORT"


def read_settings(env: Mapping[str, str]) -> StackSettings:
    """Reads the environment.

    Raises:
        SettingsError: for an unknown name or a value that cannot be used.
        StackError: when two parts would share a port.
    """
    stack = read(StackSection, "STACK", env)
    given = _globals(env)
    ports = {name: given.port_base + offset for name, offset in PORT_OFFSETS.items()}
    for name in ports:
        own = getattr(given if name.startswith("edge") else stack, f"{name}_port")
        ports[name] = own if own is not None else ports[name]
    if len(set(ports.values())) < len(ports):
        raise StackError("two parts were given the same port: check the MILENA_…_PORT variables")
    return StackSettings(
        data=Path(given.data).expanduser().absolute(),
        cache=Path(stack.cache).expanduser().absolute(),
        port_base=given.port_base,
        ports=Ports(**ports),
        parts=_names(stack.parts),
        scripted=given.scripted,
        redis_memory_mb=stack.redis_memory_mb,
        proxied=_names(stack.proxied),
    )


def _names(listed: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in listed.split(",") if name.strip())


def _globals(env: Mapping[str, str]) -> GlobalSection:
    values = {}
    for field in msgspec.structs.fields(GlobalSection):
        text = env.get(f"MILENA_{field.name.upper()}", "").strip()
        if not text:
            continue
        one = {field.name: text}
        try:
            msgspec.convert(one, GlobalSection, strict=False)
        except msgspec.ValidationError as error:
            reason = str(error).partition(" - at ")[0]
            raise StackError(f"MILENA_{field.name.upper()}={text}: {reason}") from error
        values.update(one)
    return msgspec.convert(values, GlobalSection, strict=False)
