"""`milena store migrate`: the store's tables brought to this version."""

from __future__ import annotations

import os

import typer

from ops.cli.console import AsJson, result, unreachable, working


def register(app: typer.Typer) -> None:
    """Adds the group to the program."""
    group = typer.Typer(help="Store: the tables behind the answers.", no_args_is_help=True)
    group.callback()(lambda: None)  # keeps `migrate` a word of its own while it is the only one
    group.command()(migrate)
    app.add_typer(group, name="store")


def migrate(as_json: AsJson = False) -> None:
    """Create the keyspace and apply what is missing, only ever adding. Harmless twice."""
    from connectors.errors import StoreUnavailable
    from connectors.store.schema import migrate as apply
    from connectors.store.settings import StoreSettings
    from ops.cli.environment import filled
    from topics.runtime.clock import wall_ms
    from topics.runtime.settings import read

    settings = read(StoreSettings, "STORE", filled(os.environ))
    try:
        with working("migrating the store"):
            applied = apply(settings, wall_ms())
    except StoreUnavailable as error:
        raise unreachable("the store", f"{settings.hosts}:{settings.port}") from error
    lines = [f"applied version {version}" for version in applied]
    result({"applied": applied}, lines or ["nothing to do"], as_json=as_json)
