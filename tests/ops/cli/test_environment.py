"""Where a command looks: the environment first, else the local stack's addresses."""

from pathlib import Path

import pytest

from ops.cli import environment
from ops.stack import plan
from ops.stack.settings import read_settings
from topics.errors import SettingsError


def test_gaps_are_filled_as_the_stack_fills_them() -> None:
    """A command beside the stack must look where the stack's own steps look."""
    env = {"MILENA_PORT_BASE": "18400", "MILENA_DATA": "/tmp/x", "MILENA_STACK_REDIS_PORT": "7000"}
    told = plan.environment(read_settings(env), with_registry=True)
    filled = environment.filled(env)
    assert {n: v for n, v in told.items() if n.startswith("MILENA_")}.items() <= filled.items()


def test_what_is_set_is_obeyed() -> None:
    env = {"MILENA_KAFKA_BOOTSTRAP": "10.0.0.1:9092", "MILENA_REGISTRY_URL": ""}
    assert environment.kafka(env).bootstrap == "10.0.0.1:9092"
    assert environment.registry(env).url == "", "no registry, said aloud"
    assert environment.registry({}).url == "http://127.0.0.1:8015/apis/ccompat/v7"


def test_the_edge_and_its_keys() -> None:
    assert environment.edge_url({}) == "http://127.0.0.1:8000"
    assert environment.edge_url({"MILENA_PORT_BASE": "9100"}) == "http://127.0.0.1:9100"
    assert environment.edge_url({"MILENA_CLI_BASE_URL": "http://edge/"}) == "http://edge"
    data = {"MILENA_DATA": "somewhere"}
    assert environment.keys_file(data) == Path.cwd() / "somewhere" / "keys.json"
    assert environment.secret_file(data) == Path.cwd() / "somewhere" / "secret"


def test_a_typo_refuses() -> None:
    with pytest.raises(SettingsError, match="MILENA_REGISTRY_URLS"):
        environment.registry({"MILENA_REGISTRY_URLS": "x"})
