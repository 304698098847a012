"""Which processes make up Milena on one machine, and what each waits for. One table, no action.

The registry is beside the way to an answer: nothing that serves depends on it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import msgspec

from ops.stack import cassandra, kafka, redis, registry
from ops.stack.addresses import addresses, through_proxies
from ops.stack.files import secret_file
from ops.stack.part import Part
from ops.stack.probes import http_ok
from ops.stack.settings import StackError, StackSettings
from ops.stack.tools import Tools

INFRA = ("kafka", "cassandra", "redis", "registry")
MACHINE_PORTS = {"accounts": 20, "runs": 21, "workers": 22, "metering": 23}
CLOSER_PORT = 25
POOL_PORTS = {"smollm2": 30, "smollm2-small": 31, "scripted": 32}
REGISTRY_MISMATCH = 5
"""`ExitCode.MISMATCH` of `milena schemas sync`."""
EDGE_STOP_S_MAX = 12.0
EDGE_DRAIN_S = 8.0
"""Streams may end by themselves for this long; the whole stack stops within 30 s."""


def plan(settings: StackSettings, tools: Tools, *, infra_only: bool = False) -> list[Part]:
    """The parts to run, those left out removed from what others wait for.

    Raises:
        StackError: when a part was asked for that does not exist.
    """
    everything = infra(settings, tools)
    if not infra_only:
        everything += milena(settings, with_registry=tools.registry is not None)
    chosen = _chosen(settings.parts, everything)
    names = {part.name for part in chosen}
    return [_only_after(part, names) for part in chosen]


def infra(settings: StackSettings, tools: Tools) -> list[Part]:
    """The real parts that are not ours. Those not asked for have no tool and are left out."""
    parts: list[Part] = []
    if tools.kafka is not None:
        parts += kafka.parts(settings, *tools.kafka)
    if tools.cassandra is not None:
        parts += cassandra.parts(settings, *tools.cassandra)
    if tools.redis is not None:
        parts += redis.parts(settings, tools.redis)
    if tools.registry is not None:
        parts += registry.parts(settings, *tools.registry)
    return parts


def milena(settings: StackSettings, *, with_registry: bool) -> list[Part]:
    """Our own processes: the steps that prepare, then everything at once."""
    common = environment(settings, with_registry=with_registry)
    parts = [
        _step("topics", ("topics", "apply", "--yes"), common, after=("kafka",)),
        _step("store", ("store", "migrate"), common, after=("cassandra",)),
        _step("keys", ("keys", "seed"), common, after=("store",)),
    ]
    if with_registry:
        sync = ("schemas", "sync")
        # Beside the way to an answer; but records must never be read under other schemas' ids.
        sync_step = _step("schemas", sync, common, after=("registry",), critical=False)
        parts.append(msgspec.structs.replace(sync_step, refuses=(REGISTRY_MISMATCH,)))
    base = settings.port_base

    def told(name: str) -> Mapping[str, str]:
        return {**common, **through_proxies(settings)} if name in settings.proxied else common

    for name, port in MACHINE_PORTS.items():
        module, env = ("processors", name), told(name)
        parts.append(_process(name, f"{name}-0", module, env, base + port, after=("topics",)))
    ready = ("topics", "store", "redis")
    closer, env = ("connectors.closer",), told("closer")
    parts.append(_process("closer", "closer-0", closer, env, base + CLOSER_PORT, after=ready))
    for pool, port in POOL_PORTS.items():
        if pool == "scripted" and not settings.scripted:
            continue
        worker = ("inference", "--pool", pool)
        name = f"worker-{pool}"
        env = told(name)
        parts.append(_process(name, f"{pool}-0", worker, env, base + port, after=ready))
    operator = settings.ports.edge_operator
    drained = {**told("edge"), "MILENA_EDGE_DRAIN_S": str(EDGE_DRAIN_S)}
    edge = _process(
        "edge", "edge-0", ("edge",), drained, operator, after=ready, stop_s_max=EDGE_STOP_S_MAX
    )
    return [*parts, edge]


def environment(settings: StackSettings, *, with_registry: bool) -> dict[str, str]:
    """What every process of ours is told."""
    return {**addresses(settings, with_registry=with_registry), "PYTHONUNBUFFERED": "1"}


def prepare(settings: StackSettings) -> None:
    """Makes what the processes find in the data folder."""
    secret_file(settings.data)


def _process(
    name: str,
    incarnation: str,
    module: Sequence[str],
    common: Mapping[str, str],
    port: int,
    *,
    after: tuple[str, ...],
    stop_s_max: float = 6.0,
) -> Part:
    async def answers() -> None:
        await http_ok(port, "/readyz")

    return Part(
        name=name,
        command=(sys.executable, "-m", *module),
        env={
            **common,
            "MILENA_PROCESS_OPERATOR_PORT": str(port),
            "MILENA_PROCESS_INCARNATION_NAME": incarnation,
        },
        ready=answers,
        watch=answers,
        after=after,
        port=port,
        stop_s_max=stop_s_max,
    )


def _step(
    name: str,
    words: Sequence[str],
    common: Mapping[str, str],
    *,
    after: tuple[str, ...],
    critical: bool = True,
) -> Part:
    return Part(
        name=name,
        command=(sys.executable, "-m", "ops.cli.main", *words),
        env=common,
        after=after,
        once=True,
        critical=critical,
    )


def _chosen(asked: tuple[str, ...], everything: list[Part]) -> list[Part]:
    if not asked:
        return everything
    known = {part.name for part in everything} | set(INFRA)
    for name in asked:
        if name not in known:
            raise StackError(f"there is no part {name}: choose from {', '.join(sorted(known))}")
    wanted = {*asked, "kafka-format"} if "kafka" in asked else set(asked)
    return [part for part in everything if part.name in wanted]


def _only_after(part: Part, names: set[str]) -> Part:
    after = tuple(name for name in part.after if name in names)
    return msgspec.structs.replace(part, after=after)
