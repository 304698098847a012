"""What each part is told: loopback only, its own ports, nothing that forgets or evicts."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from ops.stack import cassandra, kafka, redis, registry
from ops.stack.java import Java
from ops.stack.settings import StackSettings

JAVA = Java(binary=Path("/usr/bin/java"), major=17)


def test_kafka(settings: StackSettings) -> None:
    told = dict(line.split("=", 1) for line in kafka.server_properties(settings).splitlines())
    assert told["listeners"] == "CLIENT://127.0.0.1:17010,CONTROLLER://127.0.0.1:17011"
    assert told["advertised.listeners"] == "CLIENT://127.0.0.1:17010"
    assert told["controller.quorum.voters"] == "1@127.0.0.1:17011"
    assert told["auto.create.topics.enable"] == "false"
    assert told["group.initial.rebalance.delay.ms"] == "0"
    assert told["group.min.session.timeout.ms"] == "6000"
    for name, value in told.items():
        if name.endswith(("replication.factor", "min.isr")):
            assert value == "1", name
        if name.endswith("topic.num.partitions"):
            assert int(value) <= 4, name


def test_kafka_is_formatted_once(settings: StackSettings) -> None:
    first = kafka.parts(settings, Path("/libs"), JAVA)
    assert [part.name for part in first] == ["kafka-format", "kafka"]
    assert first[0].once
    assert first[1].after == ("kafka-format",)
    log = settings.data / "kafka" / "log"
    log.mkdir()
    (log / "meta.properties").touch()
    second = kafka.parts(settings, Path("/libs"), JAVA)
    assert [(part.name, part.after) for part in second] == [("kafka", ())]


def test_a_cluster_id_never_looks_like_an_option() -> None:
    made = [kafka.cluster_id(uuid.UUID(int=n << 120)) for n in range(256)]
    assert {len(text) for text in made} == {22}
    assert not any(text.startswith("-") for text in made)


def test_cassandra(settings: StackSettings) -> None:
    told = dict(
        line.split(": ", 1)
        for line in cassandra.configuration(settings).splitlines()
        if re.match(r"[a-z_]+: ", line)
    )
    assert told["listen_address"] == told["rpc_address"] == "127.0.0.1"
    assert told["native_transport_port"] == "17012"
    assert told["storage_port"] == "17013"
    assert told["disk_failure_policy"] == "die"
    home = settings.data / "cassandra"
    for name in ("commitlog", "saved_caches", "hints", "cdc_raw"):
        assert told[f"{name}_directory"] == f'"{home}/{name}"'


def test_cassandra_opens_no_jmx_and_takes_a_folder_with_a_space(tmp_path: Path) -> None:
    words = cassandra.command(tmp_path / "my data", Path("/libs"), JAVA)
    assert not [word for word in words if "jmx.remote.port" in word or "jmxremote.port" in word]
    config = next(word for word in words if word.startswith("-Dcassandra.config="))
    assert config.endswith("/my%20data/cassandra.yaml")


def test_redis(settings: StackSettings) -> None:
    told = dict(line.split(" ", 1) for line in redis.configuration(settings).splitlines())
    assert told["bind"] == "127.0.0.1"
    assert told["port"] == "17014"
    assert told["maxmemory"] == "512mb"
    assert told["maxmemory-policy"] == "noeviction"
    assert told["appendonly"] == "no"
    assert told["enable-debug-command"] == "local"


def test_the_registry(settings: StackSettings) -> None:
    told = registry.environment(settings)
    hosts = {value for name, value in told.items() if name.endswith("HOST")}
    assert hosts == {"127.0.0.1"}
    assert told["QUARKUS_HTTP_PORT"] == "17015"
    assert told["QUARKUS_MANAGEMENT_PORT"] == "17016"
    assert told["APICURIO_DATASOURCE_URL"].endswith(";WRITE_DELAY=0")
    (part,) = registry.parts(settings, Path("/app"), JAVA)
    assert not part.critical


@pytest.mark.parametrize("name", ["kafka", "cassandra", "redis"])
def test_configurations_name_no_foreign_address(name: str, settings: StackSettings) -> None:
    texts = {
        "kafka": kafka.server_properties(settings),
        "cassandra": cassandra.configuration(settings),
        "redis": redis.configuration(settings),
    }
    found = re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", texts[name])
    assert set(found) == {"127.0.0.1"}
