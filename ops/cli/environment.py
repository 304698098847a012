"""Where the parts are, as a command sees it: what the environment says, else the local stack's.

Owns only the filling of gaps, so that a command works beside a running stack without any setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ops.stack.addresses import HOST, addresses
from ops.stack.settings import read_settings
from topics.runtime.settings import KafkaSettings, read


class RegistrySettings(msgspec.Struct, frozen=True, kw_only=True):
    """`MILENA_REGISTRY_…`. An empty URL means that there is no registry here."""

    url: str = ""


class CliSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`MILENA_CLI_…`: what `milena ask` uses instead of the local stack's edge and keys."""

    key: str = ""
    base_url: str = ""


def filled(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with every part's address in it.

    Raises:
        SettingsError: an unknown name or a bad value.
        StackError: two parts on one port, or a port that cannot be.
    """
    settings = read_settings(env)
    local = addresses(settings)
    # A relative data folder is resolved once, here: children may run elsewhere.
    return {**local, **env, "MILENA_DATA": local["MILENA_DATA"]}


def kafka(env: Mapping[str, str]) -> KafkaSettings:
    return read(KafkaSettings, "KAFKA", filled(env))


def registry(env: Mapping[str, str]) -> RegistrySettings:
    return read(RegistrySettings, "REGISTRY", filled(env))


def edge_url(env: Mapping[str, str]) -> str:
    """Where the edge is, without a slash at the end."""
    cli = read(CliSettings, "CLI", env)
    return (cli.base_url or f"http://{HOST}:{filled(env)['MILENA_EDGE_PORT']}").rstrip("/")


def keys_file(env: Mapping[str, str]) -> Path:
    """The local stack's keys by tier."""
    return Path(filled(env)["MILENA_DATA"]) / "keys.json"


def secret_file(env: Mapping[str, str]) -> Path:
    """The secret behind key hashes, as the stack wrote it."""
    return Path(filled(env)["MILENA_EDGE_SECRET_FILE"])
