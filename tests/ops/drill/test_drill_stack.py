"""The stack's side of the drill: the chosen processes come in by proxies, all others as ever."""

from ops.stack.cassandra import configuration
from ops.stack.kafka import server_properties
from ops.stack.plan import milena
from ops.stack.settings import read_settings


def test_only_the_chosen_processes_come_in_by_proxies() -> None:
    env = {"MILENA_PORT_BASE": "9000", "MILENA_STACK_PROXIED": "runs, edge"}
    parts = {part.name: part.env for part in milena(read_settings(env), with_registry=False)}
    for name, told in parts.items():
        behind = name in {"runs", "edge"}
        assert told["MILENA_KAFKA_BOOTSTRAP"] == f"127.0.0.1:{9034 if behind else 9010}", name
        assert told["MILENA_REDIS_URL"] == f"redis://127.0.0.1:{9035 if behind else 9014}/0"
        assert told["MILENA_STORE_PORT"] == ("9036" if behind else "9012")


def test_who_comes_by_the_proxy_is_sent_back_to_it() -> None:
    env = {"MILENA_PORT_BASE": "9000", "MILENA_STACK_PROXIED": "runs"}
    lines = server_properties(read_settings(env)).splitlines()
    listeners = "CLIENT://127.0.0.1:9010,PROXIED://127.0.0.1:9033,CONTROLLER://127.0.0.1:9011"
    assert f"listeners={listeners}" in lines
    told = "CLIENT://127.0.0.1:9010,PROXIED://127.0.0.1:9034"
    assert f"advertised.listeners={told}" in lines


def test_without_proxies_there_is_no_second_listener() -> None:
    lines = server_properties(read_settings({"MILENA_PORT_BASE": "9000"})).splitlines()
    assert "advertised.listeners=CLIENT://127.0.0.1:9010" in lines


def test_the_store_acknowledges_what_is_on_disk() -> None:
    assert "commitlog_sync: batch" in configuration(read_settings({})).splitlines()
