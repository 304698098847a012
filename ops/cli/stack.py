"""`milena up`, `down`, `status`, `doctor`: the local stack from a terminal."""

from __future__ import annotations

import os
import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from ops.cli.console import AsJson, CommandError, ExitCode
from ops.stack.bounds import bounds
from ops.stack.down import down as stop_stack
from ops.stack.preflight import Finding, inspect
from ops.stack.settings import StackError, read_settings
from ops.stack.show import choose
from ops.stack.status import Status, read_status, running_pid
from ops.stack.up import up as run_stack

InfraOnly = Annotated[
    bool,
    typer.Option("--infra-only", help="Only Kafka, Cassandra, Redis and the schema registry."),
]


def up(infra_only: InfraOnly = False, as_json: AsJson = False) -> None:
    """Start the whole local stack here, in the foreground, until Ctrl-C.

    Data, logs and keys are kept under MILENA_DATA (.milena in this folder), so the next start goes
    on from there. MILENA_PORT_BASE moves every port, MILENA_STACK_PARTS=kafka,redis starts only
    these parts. Exit status: 0 stopped as asked, 1 a part failed, 2 this machine is not ready.
    """
    code = run_stack(
        read_settings(os.environ), os.environ, choose(json=as_json), infra_only=infra_only
    )
    raise typer.Exit(code)


def down(as_json: AsJson = False) -> None:
    """Stop the stack that runs over MILENA_DATA and wait until it is gone."""
    settings = read_settings(os.environ)
    try:
        stopped = stop_stack(settings)
    except StackError as error:
        raise CommandError(str(error)) from error
    if as_json:
        _print_json({"stopped": stopped})
    else:
        print("stopped" if stopped else f"no stack runs over {settings.data}")


def status(as_json: AsJson = False) -> None:
    """Show the parts: state, pid, port, age, restarts. Exit status 0 when all serve, else 1."""
    told = read_status(read_settings(os.environ))
    if as_json:
        _print_json(told)
    else:
        _print_status(told)
    raise typer.Exit(ExitCode.OK if told.ready else ExitCode.FAILED)


def doctor(as_json: AsJson = False) -> None:
    """Look at this machine: tools, ports, memory, disk, bounds. Each failing line says what to do.

    Exit status 0 when a start has what it needs, else 2.
    """
    settings = read_settings(os.environ)
    findings = inspect(settings, os.environ, running=running_pid(settings) is not None)
    findings += bounds(os.environ)
    if as_json:
        _print_json(findings)
    else:
        _print_findings(findings)
    unfit = any(finding.needed and not finding.ok for finding in findings)
    raise typer.Exit(ExitCode.BAD_SETTING if unfit else ExitCode.OK)


def register(app: typer.Typer) -> None:
    """Adds the four commands to the program."""
    for command in (up, down, status, doctor):
        app.command()(command)


def _print_json(value: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(value).decode()))


def _print_status(told: Status) -> None:
    if not told.running:
        print(f"no stack runs over {told.data}: start it with `milena up`")
        return
    now = time.time()
    table = Table(box=None, pad_edge=False)
    for column in ("part", "state", "pid", "port", "since", "restarts", "note"):
        table.add_column(column)
    for part in told.parts:
        unwell = part.pid is not None and not part.ready and part.state == "ready"
        table.add_row(
            part.name,
            "not answering" if unwell else str(part.state),
            str(part.pid or ""),
            str(part.port or ""),
            _age(now - part.since),
            str(part.restarts or ""),
            part.note,
            style="" if part.ready else "red",
        )
    Console().print(table)
    ready = "ready" if told.ready else "not ready"
    print(f"{ready}, supervisor pid {told.pid}, data in {told.data}")


def _age(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _print_findings(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        mark = "ok" if finding.ok else ("MISSING" if finding.needed else "optional")
        detail = finding.detail if finding.ok else f"{finding.detail}: {finding.fix}"
        style = "" if finding.ok else ("red" if finding.needed else "yellow")
        table.add_row(mark, finding.name, detail, style=style)
    Console().print(table)
