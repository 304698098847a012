"""Settings every machine process shares: `MILENA_PROCESS_…`."""

import msgspec


class ProcessSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`operator_port` 0 serves none; `incarnation_name` is stable across restarts of one instance."""

    operator_port: int = 0
    incarnation_name: str = "machine-0"
    start_s_max: float = 120.0
    """Longest start including recovery; beyond it the process ends and is started again."""

    def __post_init__(self) -> None:
        if not 0 <= self.operator_port < 65_536:
            raise ValueError("operator_port must be a port")
