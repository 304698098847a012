"""`milena schemas sync|check`: the registry's ids held to the released schemas."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import typer

from ops.cli.console import AsJson, CommandError, ExitCode, result, unreachable, working

if TYPE_CHECKING:
    from ops.schema_registry.client import RegistryClient

Value = TypeVar("Value")
NO_REGISTRY = "no registry is set; ids come from the released schemas"


def register(app: typer.Typer) -> None:
    """Adds the group to the program."""
    group = typer.Typer(
        help="Schemas: the registry held to the released ones.", no_args_is_help=True
    )
    group.command()(sync)
    group.command()(check)
    app.add_typer(group, name="schemas")


def sync(as_json: AsJson = False) -> None:
    """Fill the registry with every released schema under its id, and verify. Harmless twice."""
    from ops.schema_registry.sync import sync as bring
    from ops.schema_registry.wanted import subjects

    done = _with_registry(lambda client: bring(client, subjects()))
    if done is None:
        result({"registered": [], "registry": None}, [NO_REGISTRY], as_json=as_json)
        return
    lines = [f"registered {subject} as id {given}" for subject, given in done.registered]
    lines += [f"set the compatibility of {subject}" for subject in done.compatibility_set]
    result(done, lines or ["nothing to do"], as_json=as_json)


def check(as_json: AsJson = False) -> None:
    """Compare only. Exit status 1 where a subject, id or compatibility differs."""
    from ops.schema_registry.sync import check as look
    from ops.schema_registry.wanted import subjects

    findings = _with_registry(lambda client: look(client, subjects()))
    if findings is None:
        result({"findings": [], "registry": None}, [NO_REGISTRY], as_json=as_json)
        return
    document = [
        {"subject": f.subject, "what": f.what, "found": f.found, "expected": f.expected}
        for f in findings
    ]
    lines = [str(finding) for finding in findings] or ["every id is as released"]
    result({"findings": document}, lines, as_json=as_json)
    if findings:
        raise typer.Exit(1)


def _with_registry(use: Callable[[RegistryClient], Value]) -> Value | None:
    """None where no registry is set."""
    from ops.cli import environment
    from ops.schema_registry.client import RegistryAway, RegistryClient, RegistryRefused
    from ops.schema_registry.sync import Mismatch

    url = environment.registry(os.environ).url
    if not url:
        return None
    try:
        with working("asking the registry"), RegistryClient(url) as client:
            return use(client)
    except RegistryAway as error:
        raise unreachable("the schema registry", url) from error
    except RegistryRefused as error:
        raise CommandError(f"the registry refused: {error}", "milena schemas check") from error
    except Mismatch as error:
        raise CommandError(
            f"the registry differs from the released schemas: {error}. Records carry the released "
            "ids, so a registry that gave others must start empty",
            "milena schemas check",
            ExitCode.MISMATCH,
        ) from error
