"""`milena`: the whole program. Owns the list of commands and turns errors into one line and a status.

Exit status: 0 done, 1 it failed or differs, 2 a setting or the command line is wrong, 3 a part does
not answer, 4 the server refused, 5 a registry whose ids are others, 130 interrupted. Results are on
stdout, all else on stderr.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import typer

from ops.cli import ask, keys, replay, schemas, store, topics, verify
from ops.cli.console import CommandError, ExitCode, failure
from ops.stack.settings import StackError
from topics.errors import MilenaError, SettingsError

HELP: Final = "Milena: chat models for very many people, served over one Kafka log."
EPILOG: Final = (
    "Exit status: 0 done, 1 failed or different, 2 bad setting or command line, "
    "3 a part does not answer, 4 refused by the server, 5 a registry whose ids are others, "
    "130 interrupted."
)
# These need every client library there is; the other commands must not wait for them. So each is
# imported only where it is asked for, and stands in the list of commands with the text given here.
HEAVY: Final[dict[str, dict[str, str]]] = {
    "ops.cli.stack": {
        "up": "Start the whole local stack here, in the foreground, until Ctrl-C.",
        "down": "Stop the stack that runs over MILENA_DATA and wait until it is gone.",
        "status": "Show the parts: state, pid, port, age, restarts. Exit status 0 when all serve, "
        "else 1.",
        "doctor": "Look at this machine: tools, ports, memory, disk, bounds. Each failing line says what "
        "to do.",
    },
    "ops.cli.bench": {
        "bench": "Measure Milena's share of the time to first token per hop, and its CPU, on a "
        "fresh stack.",
    },
    "ops.cli.drill": {
        "drill": "Strike a fresh stack with faults under load, and check that nothing was lost.",
    },
}


def build(words: Sequence[str], *, completing: bool = False) -> typer.Typer:
    """The program for one command line. `words` is what follows the program's name."""
    app = typer.Typer(
        name="milena",
        help=HELP,
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for module in (ask, replay, verify, topics, schemas, store, keys):
        module.register(app)
    for name, commands in HEAVY.items():
        if completing or (words and words[0] in commands):
            importlib.import_module(name).register(app)
        else:
            for command, text in commands.items():
                app.command(command, help=text)(_never_run)
    return app


def _never_run() -> NoReturn:
    """Stands in the list of commands; `build` registers the real one where it is asked for."""
    raise AssertionError("a heavy command was not registered")


def run(program: Callable[[], object], *, as_json: bool) -> int:
    """Runs it and gives the exit status of an error it ended with."""
    try:
        program()
    except CommandError as error:
        failure(error, error.code, as_json=as_json)
        return error.code
    except (SettingsError, StackError) as error:
        failure(error, ExitCode.BAD_SETTING, as_json=as_json)
        return ExitCode.BAD_SETTING
    except MilenaError as error:
        failure(error, ExitCode.FAILED, as_json=as_json)
        return ExitCode.FAILED
    return ExitCode.OK


def main() -> None:
    """The entry point."""
    words = sys.argv[1:]
    app = build(words, completing="_MILENA_COMPLETE" in os.environ)
    sys.exit(run(lambda: app(prog_name="milena"), as_json="--json" in words))


if __name__ == "__main__":
    main()
