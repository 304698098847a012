"""The operator port of a process without an edge."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from topics.runtime.operator import OperatorPort


class Process:
    """What is missing can change while the port serves."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def process() -> Iterator[Process]:
    made = Process()
    port = OperatorPort("127.0.0.1", made.port, lambda: made.missing)
    port.start()
    yield made
    port.close()


def test_it_lives(process: Process) -> None:
    assert process.get("/livez") == (200, json.dumps({"live": True}))


def test_ready_names_what_is_missing(process: Process) -> None:
    assert process.get("/readyz")[0] == 200
    process.missing = {"log": "no broker"}
    status, body = process.get("/readyz")
    assert (status, json.loads(body)["missing"]) == (503, {"log": "no broker"})


def test_metrics_are_prometheus_text(process: Process) -> None:
    status, body = process.get("/metrics")
    assert status == 200
    assert "# TYPE " in body


def test_another_path_says_which_there_are(process: Process) -> None:
    assert process.get("/")[0] == 404
