"""The process around the edge: settings, the secret, the socket, the drain."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2 as httpx
import pytest

from edge.app import build
from edge.server import listen, make_server, serve
from edge.settings import (
    EdgeSettings,
    port_base,
    scripted_model_on,
    secret_of,
    secret_path,
)
from tests.edge.client import question, until
from tests.edge.world import World
from tests.support.redis_server import free_port
from topics.errors import SettingsError
from topics.runtime.settings import read


def test_settings_are_read_by_name() -> None:
    env = {
        "MILENA_EDGE_PORT": "9000",
        "MILENA_EDGE_KEEP_ALIVE_S": "2.5",
        "MILENA_EDGE_FREE_MODELS": "small, scripted",
    }
    settings = read(EdgeSettings, "EDGE", env)
    assert (settings.port, settings.keep_alive_s) == (9_000, 2.5)
    assert settings.models_of("free") == {"small", "scripted"}
    assert settings.models_of("operator") == frozenset()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RESEND_MS", "500"),
        ("TOUCH_S", "11"),
        ("BODY_BYTES_MAX", "-1"),
        ("CLIENT_SYSTEM", "below"),
        ("PORT", "x"),
        ("NO_SUCH", "1"),
    ],
)
def test_bad_settings_refuse_to_start(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match="MILENA_EDGE"):
        read(EdgeSettings, "EDGE", {f"MILENA_EDGE_{name}": value})


def test_the_secret(tmp_path: Path) -> None:
    path = secret_path(EdgeSettings(), {"MILENA_DATA": str(tmp_path)})
    with pytest.raises(SettingsError, match="milena up"):
        secret_of(path)
    path.write_text("ab" * 32)
    assert secret_of(path) == b"\xab" * 32
    path.write_text("ab")
    with pytest.raises(SettingsError):
        secret_of(path)
    assert secret_path(EdgeSettings(secret_file="/x/y"), {}) == Path("/x/y")


def test_globals() -> None:
    assert port_base({}) == 8_000
    assert port_base({"MILENA_PORT_BASE": "9100"}) == 9_100
    with pytest.raises(SettingsError):
        port_base({"MILENA_PORT_BASE": "-1"})
    assert scripted_model_on({"MILENA_SCRIPTED": "1"})
    assert not scripted_model_on({})


def test_connections_inherit_the_small_buffer() -> None:
    with contextlib.closing(listen("127.0.0.1", 0, 16_384)) as server:
        port = server.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            listen("127.0.0.1", port, 16_384)
        with socket.create_connection(("127.0.0.1", port)):
            server.setblocking(True)
            accepted, _ = server.accept()
            with accepted:
                assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 2 * 16_384
                timeout = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
                assert timeout == 60_000


async def test_a_drain_takes_nothing_new_and_ends_in_time(world: World) -> None:
    listening = listen("127.0.0.1", 0, 65_536)
    port = listening.getsockname()[1]
    server = make_server(build(world.parts), 0.5)
    stop = asyncio.Event()
    serving = asyncio.create_task(serve(server, listening, world.parts.hub, 0.5, stop))
    async with (
        asyncio.timeout(10),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        await until(lambda: server.started)
        headers = world.headers(idempotency="k")
        path = "/v1/generations"
        async with client.stream("POST", path, json=question(), headers=headers) as response:
            chunks = response.aiter_raw()
            await anext(chunks)
            stop.set()
            await asyncio.sleep(0.2)
            with pytest.raises(httpx.ConnectError):
                await httpx.AsyncClient().get(f"http://127.0.0.1:{port}/docs")
            with pytest.raises(httpx.RemoteProtocolError):
                await _drain(chunks)
        await serving
    assert world.parts.metrics.cut.labels("drain")._value.get() == 1


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    async for _ in chunks:
        pass


def run_edge(tmp_path: Path, **more: str) -> "subprocess.Popen[str]":
    (tmp_path / "secret").write_text("ab" * 32)
    env = {name: value for name, value in os.environ.items() if not name.startswith("MILENA_")}
    env |= {
        "MILENA_DATA": str(tmp_path),
        "MILENA_EDGE_PORT": str(free_port()),
        "MILENA_EDGE_OPERATOR_PORT": str(free_port()),
        "MILENA_KAFKA_BOOTSTRAP": f"127.0.0.1:{free_port()}",
        **more,
    }
    return subprocess.Popen(
        [sys.executable, "-m", "edge"], env=env, stderr=subprocess.PIPE, text=True
    )


def test_a_bad_setting_is_one_line_and_exit_2(tmp_path: Path) -> None:
    process = run_edge(tmp_path, MILENA_EDGE_NO_SUCH="1")
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "MILENA_EDGE_NO_SUCH" in errors
    assert "Traceback" not in errors


def test_a_taken_port_is_one_line_and_exit_2(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process = run_edge(tmp_path, MILENA_EDGE_PORT=str(taken.getsockname()[1]))
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 2
    assert "does not start" in errors
    assert "Traceback" not in errors
