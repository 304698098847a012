"""Reads settings from the environment into frozen structs. Owns the naming rule
`MILENA_<SECTION>_<NAME>`; holds no value itself.

An unknown `MILENA_` name or a bad value refuses to start: a typo must not become a silent default.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from topics.errors import SettingsError

PREFIX: Final = "MILENA_"
SECTIONS: Final = frozenset(
    {
        "ACCOUNTS",
        "BENCH",
        "CLI",
        "CLOSER",
        "EDGE",
        "INFERENCE",
        "KAFKA",
        "METERING",
        "PROCESS",
        "REDIS",
        "REGISTRY",
        "RUNS",
        "STACK",
        "STORE",
        "TEST",
        "WORKERS",
    }
)
GLOBALS: Final = frozenset({"MILENA_DATA", "MILENA_PORT_BASE", "MILENA_SCRIPTED"})

Section = TypeVar("Section", bound=msgspec.Struct)


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`MILENA_KAFKA_…`: where the log is and how large it is here."""

    bootstrap: str = "127.0.0.1:8010"
    local: bool = True
    """Local partition counts and replication 1; production counts otherwise."""


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`MILENA_PROCESS_…`: what the stack tells every process about itself.

    `operator_port` 0 serves none (the edge has its own setting); `incarnation_name` is stable across
    restarts of one instance: group members are static under it.
    """

    operator_port: int = 0
    incarnation_name: str = "local-0"
    start_s_max: float = 120.0
    """Longest start of a machine, recovery included; beyond it the process is started again."""

    def __post_init__(self) -> None:
        if not 0 <= self.operator_port < 65_536:
            raise ValueError("operator_port must be a port")
        if not self.incarnation_name:
            raise ValueError("incarnation_name must not be empty")


def check_names(env: Mapping[str, str]) -> None:
    """Refuses names that no section owns.

    Raises:
        SettingsError: naming the variable.
    """
    for name in env:
        if not name.startswith(PREFIX) or name in GLOBALS:
            continue
        section = name.removeprefix(PREFIX).split("_", 1)[0]
        if section not in SECTIONS:
            raise SettingsError(f"{name} is not a setting of Milena; see `milena doctor`")


def read(cls: type[Section], section: str, env: Mapping[str, str]) -> Section:
    """One section, e.g. `read(KafkaSettings, "KAFKA", os.environ)`.

    Raises:
        SettingsError: an unknown name in the section, or a value that does not fit.
    """
    check_names(env)
    prefix = f"{PREFIX}{section}_"
    fields = {field.name for field in msgspec.structs.fields(cls)}
    given: dict[str, str] = {}
    for name, value in env.items():
        if not name.startswith(prefix) or name in GLOBALS:
            continue
        field = name.removeprefix(prefix).lower()
        if field not in fields:
            raise SettingsError(
                f"{name} is not a setting; {prefix}… has {', '.join(sorted(fields))}"
            )
        given[field] = value
    try:
        return msgspec.convert(given, cls, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise SettingsError(f"{prefix}…: {error}") from error
