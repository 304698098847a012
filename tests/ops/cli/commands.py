"""Runs a command line in this process, as the program would, and keeps what it printed."""

import sys

import msgspec
import pytest

from ops.cli.main import build, run


class Ran(msgspec.Struct, frozen=True):
    """What a command line left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, object]:
        return msgspec.json.decode(self.out, type=dict[str, object])


def milena(capsys: pytest.CaptureFixture[str], *words: str) -> Ran:
    """One command; stdin is nobody."""
    app = build(words)

    def program() -> None:
        app(args=list(words), prog_name="milena")

    capsys.readouterr()
    try:
        code = run(program, as_json="--json" in words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    sys.stdout.flush()
    captured = capsys.readouterr()
    return Ran(int(code), captured.out, captured.err)
