"""What a person and a program see."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import msgspec
from rich.console import Console

from ops.stack.part import Report, State
from ops.stack.settings import StackSettings
from ops.stack.show import JsonLines, Lines, LiveTable
from ops.stack.welcome import example, welcome

READY = Report(
    name="kafka",
    state=State.READY,
    pid=7,
    port=17010,
    since=1.0,
    restarts=0,
    ready=True,
    once=False,
    critical=True,
    took_s=2.34,
    note="",
    log="/logs/kafka.log",
)
CRASHED = msgspec.structs.replace(
    READY, state=State.BACKING_OFF, note="it ended with 1; again in 0.5 s, see /logs/kafka.log"
)


def test_lines_tell_changes_and_nothing_else() -> None:
    out = io.StringIO()
    show = Lines(out)
    show.report(msgspec.structs.replace(READY, state=State.STARTING))
    show.report(READY)
    show.report(CRASHED)
    show.report(msgspec.structs.replace(READY, restarts=1))
    show.report(msgspec.structs.replace(READY, ready=False, note="no answer from port 17010"))
    show.report(msgspec.structs.replace(READY, state=State.DONE))
    assert [line.removeprefix("kafka").strip() for line in out.getvalue().splitlines()] == [
        "ready after 2.3 s (pid 7, port 17010)",
        "it ended with 1; again in 0.5 s, see /logs/kafka.log",
        "ready after 2.3 s (pid 7, port 17010, restart 1)",
        "does not answer: no answer from port 17010",
        "done in 2.3 s",
    ]


def test_json_lines() -> None:
    out = io.StringIO()
    show = JsonLines(out)
    show.progress("kafka", "fetching, 1 MB")
    show.report(READY)
    show.settled()
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert lines[0] == {"progress": "kafka", "words": "fetching, 1 MB"}
    assert lines[1]["part"]["state"] == "ready"
    assert lines[2] == {"settled": True}


def test_a_terminal_sees_every_part_and_then_the_news() -> None:
    out = io.StringIO()
    show = LiveTable(Console(file=out, force_terminal=True, width=100))
    show.progress("cassandra", "fetching, 12 MB")
    show.report(msgspec.structs.replace(READY, name="redis", state=State.WAITING, took_s=None))
    show.report(READY)
    show.settled()
    drawn = out.getvalue()
    assert all(word in drawn for word in ("fetching, 12 MB", "redis", "waiting", "2.3 s"))
    show.report(CRASHED)
    assert "again in 0.5 s, see /logs/kafka.log" in out.getvalue().removeprefix(drawn)


def test_the_example_runs_in_a_shell_as_printed(tmp_path: Path) -> None:
    keys = tmp_path / "my keys.json"
    keys.write_text('{"free": "mk_x"}')
    seen = tmp_path / "seen.json"
    curl = tmp_path / "curl"
    curl.write_text(f"#!{sys.executable}\nimport json, sys\n")
    with curl.open("a") as file:
        file.write(f"open({str(seen)!r}, 'w').write(json.dumps(sys.argv[1:]))\n")
    curl.chmod(0o755)
    script = "\n".join(example("http://127.0.0.1:17000", keys))
    path = f"{tmp_path}:/usr/bin:/bin"
    subprocess.run(["/bin/sh", "-c", script], check=True, env={"PATH": path})
    words = json.loads(seen.read_text())
    assert words[:2] == ["-N", "http://127.0.0.1:17000/v1/generations"]
    assert "Authorization: Bearer mk_x" in words
    body = json.loads(words[-1])
    assert body["model"] == "flagship"
    assert body["stream"] is True


def test_the_welcome_names_address_and_keys(settings: StackSettings) -> None:
    text = "\n".join(welcome(settings, 12.3, edge=True))
    assert "ready after 12.3 s: http://127.0.0.1:17000" in text
    assert str(settings.data / "keys.json") in text
    assert len(welcome(settings, 1.0, edge=False)) == 1
