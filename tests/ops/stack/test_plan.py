"""The table of processes: what runs, with what, after what."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ops.cli.console import ExitCode
from ops.stack.java import Java
from ops.stack.plan import REGISTRY_MISMATCH, environment, plan
from ops.stack.settings import StackError, StackSettings, read_settings
from ops.stack.supervisor import check
from ops.stack.tools import Tools

JAVA = Java(binary=Path("/usr/bin/java"), major=21)
ALL = Tools(
    kafka=(Path("/kafka"), JAVA),
    cassandra=(Path("/cassandra"), JAVA),
    redis=Path("/usr/bin/redis-server"),
    registry=(Path("/registry"), JAVA),
)


def test_everything(settings: StackSettings) -> None:
    parts = {part.name: part for part in check(plan(settings, ALL))}
    assert set(parts) == {
        *("kafka-format", "kafka", "cassandra", "redis", "registry"),
        *("topics", "store", "keys", "schemas"),
        *("accounts", "runs", "workers", "metering"),
        *("closer", "worker-smollm2", "worker-smollm2-small", "edge"),
    }
    ports = [part.port for part in parts.values() if part.port is not None]
    assert len(set(ports)) == len(ports)


def test_commands_and_names_of_ours(settings: StackSettings) -> None:
    parts = {part.name: part for part in plan(settings, ALL)}
    told = {
        name: (
            part.command[1:],
            part.env.get("MILENA_PROCESS_OPERATOR_PORT"),
            part.env.get("MILENA_PROCESS_INCARNATION_NAME"),
        )
        for name, part in parts.items()
        if "MILENA_DATA" in part.env
    }
    assert told["accounts"] == (("-m", "processors", "accounts"), "17020", "accounts-0")
    assert told["metering"] == (("-m", "processors", "metering"), "17023", "metering-0")
    assert told["closer"] == (("-m", "connectors.closer"), "17025", "closer-0")
    assert told["worker-smollm2-small"] == (
        ("-m", "inference", "--pool", "smollm2-small"),
        "17031",
        "smollm2-small-0",
    )
    assert told["edge"] == (("-m", "edge"), "17001", "edge-0")
    assert told["topics"] == (("-m", "ops.cli.main", "topics", "apply", "--yes"), None, None)


def test_nothing_on_the_way_to_an_answer_waits_for_the_registry(settings: StackSettings) -> None:
    parts = {part.name: part for part in plan(settings, ALL)}

    def needs(name: str) -> set[str]:
        after = parts[name].after
        return set(after).union(*(needs(other) for other in after))

    serving = {name for name, part in parts.items() if part.critical}
    assert serving == set(parts) - {"registry", "schemas"}
    assert not any(needs(name) & {"registry", "schemas"} for name in serving)
    assert {"kafka", "cassandra", "redis"} <= needs("edge")


def test_without_a_registry_ids_come_from_the_snapshot(settings: StackSettings) -> None:
    parts = {p.name: p for p in plan(settings, msgspec.structs.replace(ALL, registry=None))}
    assert not {"registry", "schemas"} & set(parts)
    assert parts["edge"].env["MILENA_REGISTRY_URL"] == ""


def test_the_scripted_pool_runs_where_it_is_asked_for(settings: StackSettings) -> None:
    asked = msgspec.structs.replace(settings, scripted=True)
    assert "worker-scripted" in {part.name for part in plan(asked, ALL)}


def test_a_choice_of_parts_waits_only_for_what_is_chosen(settings: StackSettings) -> None:
    chosen = msgspec.structs.replace(settings, parts=("kafka", "topics", "edge"))
    parts = {part.name: part for part in check(plan(chosen, ALL))}
    assert set(parts) == {"kafka-format", "kafka", "topics", "edge"}
    assert parts["edge"].after == ("topics",)


def test_infra_only(settings: StackSettings) -> None:
    names = [part.name for part in plan(settings, ALL, infra_only=True)]
    assert names == ["kafka-format", "kafka", "cassandra", "redis", "registry"]


def test_an_unknown_part_is_refused(settings: StackSettings) -> None:
    chosen = msgspec.structs.replace(settings, parts=("kafak",))
    with pytest.raises(StackError, match=r"no part kafak: choose from .*kafka"):
        plan(chosen, ALL)


def test_two_stacks_side_by_side_share_nothing() -> None:
    one, two = (
        environment(
            read_settings({"MILENA_PORT_BASE": base, "MILENA_DATA": f"/tmp/{base}"}),
            with_registry=True,
        )
        for base in ("17000", "18000")
    )
    same = {name for name in one if one[name] == two[name]}
    assert same == {"MILENA_STORE_HOSTS", "MILENA_STORE_KEYSPACE", "PYTHONUNBUFFERED"}


def test_a_registry_with_other_ids_refuses_the_whole_stack() -> None:
    assert int(ExitCode.MISMATCH) == REGISTRY_MISMATCH
