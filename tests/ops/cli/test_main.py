"""The program as a whole: what it lists, how fast, and how an error ends it."""

import importlib
import inspect
import os
import subprocess
import sys

import pytest
import typer

from ops.cli.console import CommandError, ExitCode, columns, result, unreachable
from ops.cli.main import HEAVY, build, run
from ops.stack.settings import StackError
from tests.ops.cli.commands import milena
from topics.errors import LogUnavailable, SettingsError


def test_every_command_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    ran = milena(capsys, "--help")
    assert ran.code == 0
    for word in ("up", "down", "status", "doctor", "bench", "topics", "schemas", "store", "keys",
                 "ask", "replay"):  # fmt: skip
        assert f"\n  {word} " in ran.out, word
    assert "Exit status: 0 done" in ran.out
    assert "seed" not in milena(capsys, "keys", "--help").out, "a step of the stack, not of people"


@pytest.mark.parametrize("module", HEAVY)
def test_what_stands_for_a_heavy_command_says_the_same(module: str) -> None:
    app = typer.Typer()
    importlib.import_module(module).register(app)
    real = {}
    for command in app.registered_commands:
        assert command.callback is not None
        doc = inspect.getdoc(command.callback) or ""
        first = " ".join(doc.split("\n\n")[0].split())
        real[command.name or command.callback.__name__] = first
    assert HEAVY[module] == real


def test_help_waits_for_no_client_library() -> None:
    heavy = ("redis", "cassandra", "confluent_kafka", "httpx2", "fastavro", "rich.table", "numpy")
    code = (
        "import sys; from ops.cli.main import build; build([]);"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30
    )
    assert ran.stdout == "[]\n"


def test_a_heavy_command_is_the_real_one_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "--infra-only" in milena(capsys, "up", "--help").out
    assert len(build([], completing=True).registered_commands) >= len(HEAVY["ops.cli.stack"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CommandError("no", "milena x", ExitCode.REFUSED), 4),
        (unreachable("Kafka", "127.0.0.1:1"), 3),
        (SettingsError("MILENA_X is no setting"), 2),
        (StackError("two parts were given the same port"), 2),
        (LogUnavailable("10 s"), 1),
    ],
)
def test_an_error_is_one_line_and_a_status(
    error: Exception, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def program() -> None:
        raise error

    assert run(program, as_json=False) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: ")


def test_a_program_gets_the_error_as_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    ran = milena(capsys, "replay", "msg_1", "--json")
    assert ran.code == ExitCode.BAD_SETTING
    error = ran.document["error"]
    assert isinstance(error, dict)
    assert error["exit_code"] == 2
    assert error["next"] == "milena replay --help"


def test_a_wrong_setting_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MILENA_KAFFKA_LOCAL", "1")
    ran = milena(capsys, "topics", "list")
    assert ran.code == 2
    assert "MILENA_KAFFKA_LOCAL" in ran.err


def test_a_wrong_word_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert milena(capsys, "topicz").code == 2
    assert milena(capsys, "keys", "create", "--tier", "gold").code == 2


def test_a_column_is_as_wide_as_its_widest() -> None:
    assert columns([("a", "bb"), ("ccc", "")]) == ["a    bb", "ccc"]


def test_a_result_is_one_document_or_lines(capsys: pytest.CaptureFixture[str]) -> None:
    result({"a": 1}, ["x", "y"], as_json=True)
    assert capsys.readouterr().out == '{\n  "a": 1\n}\n'
    result({"a": 1}, ["x", "y"], as_json=False)
    assert capsys.readouterr().out == "x\ny\n"


def test_no_colour_and_no_spinner_where_nobody_looks() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "ops.cli.main", "--help"],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert b"\x1b[" not in ran.stdout + ran.stderr
