"""What a person and a program see of a command: one place for output, errors and exit codes.

Results go to stdout, all else to stderr, so that a pipe gets the result only. An error is one line
that ends with the next command to try. Never prints a prompt, an answer or a key by itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated, Any, Protocol

import msgspec
import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


class ExitCode(IntEnum):
    """The status of every command. 2 also is a usage error, found before a command runs."""

    OK = 0
    FAILED = 1
    BAD_SETTING = 2
    UNREACHABLE = 3
    REFUSED = 4
    MISMATCH = 5
    INTERRUPTED = 130


class CommandError(Exception):
    """Ends a command with one line: what is wrong, then the command that helps."""

    def __init__(
        self, message: str, next_command: str = "", code: ExitCode = ExitCode.FAILED
    ) -> None:
        super().__init__(message)
        self.message = message
        self.next_command = next_command
        self.code = code

    def __str__(self) -> str:
        return f"{self.message}: try `{self.next_command}`" if self.next_command else self.message


def unreachable(what: str, where: str) -> CommandError:
    """A part of the stack that does not answer."""
    return CommandError(f"{what} does not answer at {where}", "milena status", ExitCode.UNREACHABLE)


class Progress(Protocol):
    """The line beside the spinner."""

    def __call__(self, words: str) -> None: ...


def note(text: str) -> None:
    """A remark for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


def confirm(command: str) -> None:
    """Asks the person at the terminal; a program says `--yes` instead.

    Raises:
        CommandError: nobody is there to answer.
    """
    if not sys.stdin.isatty():
        raise CommandError("nobody is here to say yes", f"{command} --yes")
    typer.confirm("go on?", abort=True, err=True)


def result(document: object, lines: Sequence[str], *, as_json: bool) -> None:
    """The result of a command, once: as a document or as lines."""
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(document).decode()), flush=True)
    elif lines:
        print("\n".join(lines), flush=True)


def failure(error: Exception, code: ExitCode, *, as_json: bool) -> None:
    """The one line of an error; programs get it as a document on stdout as well."""
    print(f"error: {error}", file=sys.stderr, flush=True)
    if as_json:
        document: dict[str, Any] = {"message": str(error), "exit_code": int(code)}
        if isinstance(error, CommandError):
            document = {**document, "message": error.message, "next": error.next_command or None}
        print(msgspec.json.encode({"error": document}).decode(), flush=True)


@contextmanager
def working(words: str) -> Iterator[Progress]:
    """A spinner on stderr while the block runs; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield lambda words: None
        return
    from rich.console import Console

    with Console(stderr=True).status(words) as status:
        yield lambda words: status.update(words)


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as lines with aligned columns; the first row is the heading. No borders, no colour."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
