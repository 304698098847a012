"""`milena ask` against a scripted edge: it streams, survives cuts, and stops on the server."""

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ops.cli.ask_stream import AnswerStream, Lost, Question
from ops.cli.ask_terminal import CtrlC
from ops.cli.console import ExitCode
from tests.ops.cli.commands import milena
from tests.ops.cli.edge_double import GENERATION_ID, EdgeDouble, completed, delta, serving

WORDS = [delta(0, "TCP "), delta(4, "slows "), delta(10, "down.")]
TEXT = "TCP slows down."
KEY = ("--key", "mk_test")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries are the edge's business, not the test's."""
    monkeypatch.setattr("ops.cli.ask_stream.WAITS_S", (0.0,) * 4)


def test_an_answer_comes_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(EdgeDouble([*WORDS, completed()])) as edge:
        ran = milena(capsys, "ask", "Why?", "--base-url", edge.url, *KEY)
    assert (ran.code, ran.out) == (0, f"{TEXT}\n")
    assert "completed" in ran.err
    assert "5 tokens in, 3 out" in ran.err
    method, path, headers = edge.asked[0]
    assert (method, path) == ("POST", "/v1/generations")
    assert headers["Authorization"] == "Bearer mk_test"
    assert headers["Idempotency-Key"].startswith("cli-")
    assert edge.bodies == [
        {"model": "flagship", "messages": [{"role": "user", "content": "Why?"}], "stream": True}
    ]


def test_a_program_gets_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(EdgeDouble([*WORDS, completed()])) as edge:
        ran = milena(
            capsys, "ask", "Why?", "--base-url", edge.url, *KEY, "--model", "small",
            "--max-output-tokens", "7", "--json",
        )  # fmt: skip
    document = ran.document
    assert (document["text"], document["status"]) == (TEXT, "completed")
    assert document["generation_id"] == GENERATION_ID
    assert (edge.bodies[0]["model"], edge.bodies[0]["max_output_tokens"]) == ("small", 7)


@pytest.mark.parametrize("cuts", [[0], [1], [2], [3], [1, 1, 1, 1], [2, 0, 0, 1]])
def test_a_cut_connection_loses_and_repeats_nothing(
    cuts: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    edge = EdgeDouble([*WORDS, completed()])
    edge.cuts = list(cuts)
    with serving(edge):
        ran = milena(capsys, "ask", "Why?", "--base-url", edge.url, *KEY)
    assert (ran.code, ran.out) == (0, f"{TEXT}\n")
    posts = [headers for method, _, headers in edge.asked if method == "POST"]
    assert len({headers["Idempotency-Key"] for headers in posts}) == 1, "asked once"
    for method, path, _ in edge.asked[1:]:
        assert (method, path) == ("GET", f"/v1/generations/{GENERATION_ID}/stream")


def test_it_goes_on_after_the_last_id_it_saw(capsys: pytest.CaptureFixture[str]) -> None:
    edge = EdgeDouble([*WORDS, completed()])
    edge.cuts = [3]  # created and two deltas
    with serving(edge):
        milena(capsys, "ask", "Why?", "--base-url", edge.url, *KEY)
    assert edge.asked[1][2]["Last-Event-ID"] == "1-2"


def test_a_stream_with_a_hole_is_read_from_its_start(capsys: pytest.CaptureFixture[str]) -> None:
    edge = EdgeDouble([*WORDS, completed()])
    whole = edge.frames

    def holed(after: int) -> object:
        first = len(edge.asked) == 1
        frames = list(whole(after))
        return [frames[0], *frames[2:]] if first else frames

    edge.frames = holed  # type: ignore[method-assign, assignment]
    with serving(edge):
        ran = milena(capsys, "ask", "Why?", "--base-url", edge.url, *KEY)
    assert ran.out == f"{TEXT}\n"
    assert "Last-Event-ID" not in edge.asked[1][2]


def test_a_stream_that_stays_broken_is_given_up() -> None:
    edge = EdgeDouble([*WORDS, completed()])
    edge.cuts = [0] * 50
    question = Question(prompt="Why?", model="m", idempotency_key="k")
    with (
        serving(edge),
        AnswerStream(edge.url, "k", question, wait=lambda _: None) as stream,
        pytest.raises(Lost),
    ):
        list(stream.events())
    assert len(edge.asked) == 5


def test_a_refusal_names_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    edge = EdgeDouble([])
    error = {"code": "quota_exhausted", "message": "40 of 40 used, back at 12:00"}
    edge.refusal = (429, {"error": error})
    with serving(edge):
        ran = milena(capsys, "ask", "Why?", "--base-url", edge.url, *KEY)
    assert ran.code == ExitCode.REFUSED
    assert "quota_exhausted: 40 of 40 used" in ran.err
    assert ran.out == ""
    assert len(edge.asked) == 1, "a refusal is final"


def test_a_failed_answer_shows_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    failed = ("error", {"code": "model_backend_error", "action": "none", "partial": True})
    with serving(EdgeDouble([*WORDS[:1], failed])) as edge:
        ran = milena(capsys, "ask", "Why?", "--base-url", edge.url, *KEY)
    assert ran.code == ExitCode.FAILED
    assert ran.out == "TCP \n"
    assert f"model_backend_error: try `milena replay {GENERATION_ID}`" in ran.err


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    ran = milena(capsys, "ask", "Why?", "--base-url", "http://127.0.0.1:9", *KEY)
    assert ran.code == ExitCode.UNREACHABLE
    assert "milena status" in ran.err


def test_the_key_of_the_local_stack(
    capsys: pytest.CaptureFixture[str], fresh_shell: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = milena(capsys, "ask", "Why?")
    assert none.code == ExitCode.BAD_SETTING
    assert "milena keys create" in none.err
    (fresh_shell / "keys.json").write_text('{"free": "mk_f", "paid": "mk_p"}')
    with serving(EdgeDouble([completed()])) as edge:
        monkeypatch.setenv("MILENA_CLI_BASE_URL", f"{edge.url}/")
        milena(capsys, "ask", "Why?")
        milena(capsys, "ask", "Why?", "--tier", "free")
        monkeypatch.setenv("MILENA_CLI_KEY", "mk_env")
        milena(capsys, "ask", "Why?")
    keys = [headers["Authorization"] for _, _, headers in edge.asked]
    assert keys == ["Bearer mk_p", "Bearer mk_f", "Bearer mk_env"]


def test_ctrl_c_stops_on_the_server_and_shows_what_was_written(tmp_path: Path) -> None:
    """In a terminal, so the text is there before Ctrl-C, and nothing of it is lost after."""
    edge = EdgeDouble([*WORDS, completed()])
    edge.hold_before = 3
    terminal, inside = pty.openpty()
    with serving(edge):
        asking = subprocess.Popen(
            [sys.executable, "-m", "ops.cli.main", "ask", "Why?", *KEY, "--base-url", edge.url],
            env={**os.environ, "MILENA_DATA": str(tmp_path)},
            stdout=inside,
            stderr=subprocess.PIPE,
        )
        os.close(inside)
        shown = b""
        while b"slows" not in shown:
            assert select.select([terminal], [], [], 20)[0], "no text came"
            shown += os.read(terminal, 1_000)
        assert not edge.cancelled.is_set()
        asking.send_signal(signal.SIGINT)
        _, err = asking.communicate(timeout=20)
        shown += os.read(terminal, 1_000)
    os.close(terminal)
    assert asking.returncode == ExitCode.INTERRUPTED, err.decode()
    assert shown == b"TCP slows \r\n"
    assert b"cancelled, " in err
    assert b"5 tokens in, 3 out" in err
    cancels = [path for _, path, _ in edge.asked if path.endswith("/cancel")]
    assert cancels == [f"/v1/generations/{GENERATION_ID}/cancel"]


def test_ctrl_c_is_heard_at_the_next_wait_and_never_in_a_write() -> None:
    ctrl_c, done = CtrlC(), []

    def write_then_wait() -> None:
        signal.raise_signal(signal.SIGINT)
        done.append("written whole")
        with ctrl_c.waiting():
            done.append("waited")

    with ctrl_c, pytest.raises(KeyboardInterrupt):
        write_then_wait()
    assert done == ["written whole"]
