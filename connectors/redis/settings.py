"""Settings `MILENA_REDIS_…`. Holds bounds, opens nothing."""

import msgspec


class RedisSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where Redis is and how long a call may take."""

    url: str = "redis://127.0.0.1:8014/0"
    deadline_s: float = 2.0
    """One call, from asking to the answer, waiting for a connection included."""
    connections: int = 2
    """Connections of one process for calls; each carries many calls a round trip."""
    waiting_calls_max: int = 10_000
    """Calls waiting for a connection; one more is answered as if Redis were away."""
    ping_every_s: float = 1.0
    """Push connection: asked this often whether it lives."""
    silence_s_max: float = 3.0
    """Push connection: re-made after this long without a word."""
    reconnect_s_max: float = 1.0
    """Push connection: longest pause between two attempts."""
