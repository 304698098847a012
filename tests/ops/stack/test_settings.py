"""Ports, folders and parts as the environment says them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ops.stack.settings import StackError, port_variable, read_settings
from topics.errors import SettingsError


def test_the_defaults() -> None:
    settings = read_settings({})
    assert msgspec.structs.asdict(settings.ports) == {
        "edge": 8000,
        "edge_operator": 8001,
        "kafka": 8010,
        "kafka_controller": 8011,
        "cassandra": 8012,
        "cassandra_storage": 8013,
        "redis": 8014,
        "registry": 8015,
        "registry_management": 8016,
    }
    assert settings.data == Path.cwd() / ".milena"
    assert not settings.scripted
    assert settings.parts == ()


def test_a_base_moves_every_port_and_a_name_moves_one() -> None:
    env = {"MILENA_PORT_BASE": "18000", "MILENA_STACK_REDIS_PORT": "6380"}
    ports = read_settings({**env, "MILENA_EDGE_PORT": "9000"}).ports
    assert (ports.edge, ports.edge_operator, ports.kafka, ports.redis) == (9000, 18001, 18010, 6380)


def test_parts_and_folders() -> None:
    settings = read_settings(
        {"MILENA_DATA": "here", "MILENA_STACK_PARTS": "kafka, redis", "MILENA_SCRIPTED": "1"}
    )
    assert settings.parts == ("kafka", "redis")
    assert settings.data.is_absolute()
    assert settings.scripted
    assert settings.logs.parent == settings.run.parent == settings.data


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MILENA_PORT_BASE", "80"),
        ("MILENA_PORT_BASE", "65530"),
        ("MILENA_PORT_BASE", "many"),
        ("MILENA_EDGE_PORT", "0"),
        ("MILENA_STACK_KAFKA_PORT", "70000"),
        ("MILENA_STACK_REDIS_MEMORY_MB", "1"),
        ("MILENA_STACK_KAFFKA_PORT", "8010"),
        ("MILENA_SCRIPTED", "perhaps"),
    ],
)
def test_a_bad_value_or_name_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises((StackError, SettingsError), match=r"MILENA_") as refused:
        read_settings({name: value})
    assert name.removeprefix("MILENA_STACK_").lower() in str(refused.value).lower()


def test_two_parts_on_one_port_are_refused() -> None:
    with pytest.raises(StackError, match="same port"):
        read_settings({"MILENA_STACK_REDIS_PORT": "8010"})


def test_the_names_that_move_a_port() -> None:
    assert port_variable("edge_operator") == "MILENA_EDGE_OPERATOR_PORT"
    assert port_variable("kafka_controller") == "MILENA_STACK_KAFKA_CONTROLLER_PORT"
