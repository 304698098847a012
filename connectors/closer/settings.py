"""Settings `MILENA_CLOSER_…`. Hold bounds only."""

import msgspec


class CloserSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the closer."""

    in_flight_max: int = 256
    """Generations worked on at once."""
    waiting_max: int = 1_024
    """Records read ahead; beyond it reading pauses."""
    tries_max: int = 6
    """Of one record; then it is dropped and counted: runs repeats what still matters."""
    pause_s_first: float = 0.1
    """Before the second try; doubled each time."""
    pause_s_max: float = 2.0
    commit_every_s: float = 0.2
    look_every_s: float = 2.0
    """How often Redis and the store are asked for the readiness answer."""
