"""Settings `MILENA_EDGE_…`: every bound of the edge in one table. Opens nothing but its secret."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from connectors.store.keys import read_secret
from topics.errors import SettingsError
from topics.partition import partition_of

_BASE_PORT: Final = 8_000


class EdgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds and waits. Seconds, milliseconds and bytes as the names say."""

    host: str = "127.0.0.1"
    port: int | None = None
    """Public port; `MILENA_PORT_BASE` where not given."""
    operator_port: int | None = None
    """Health and metrics; the port base plus one where not given."""
    secret_file: str | None = None
    """Hex secret of fingerprints and key hashes; `secret` in the data folder where not given."""
    reply_partition: int | None = None
    """Partition of edge.replies; derived from the incarnation's name where not given."""

    body_bytes_max: int = 1_048_576
    bodies_bytes_total_max: int = 134_217_728
    body_wait_s_max: float = 10.0
    """From the first byte of a body to its last."""
    requests_max: int = 20_000
    """Requests and streams open at once; one more is refused."""

    output_tokens_default: int = 1_000
    client_system: Literal["refuse"] = "refuse"
    """What becomes of a client's system turn."""
    free_models: str = ""
    paid_models: str = ""
    """Aliases a tier may use, separated by commas; all of them where empty."""

    key_cache_s: float = 10.0
    key_stale_s_max: float = 300.0
    """A known key goes on for so long while the store is away."""
    keys_cached_max: int = 20_000

    payload_ms_max: int = 400
    """For one of store and Redis to take the request's text."""
    decision_ms_max: int = 500
    """A valid request has a typed decision within this."""
    resend_ms: int = 250
    answer_ms_max: int = 1_000
    """A question about state or limits, and one read of the store."""
    waiting_max: int = 10_000
    plan_version: str = "local"
    queue_wait_ms_max: int = 15_000
    run_ms_max: int = 600_000
    disconnect_grace_ms: int = 10_000

    keep_alive_s: float = 15.0
    silence_s_max: float = 5.0
    """Without news a generation's log is read after this."""
    touch_s: float = 2.0
    store_ask_s: float = 1.0
    stream_buffer_bytes_max: int = 65_536
    """Text kept for one client that is behind; after that it is served from the log."""
    stream_buffers_bytes_total_max: int = 67_108_864
    socket_send_bytes: int = 65_536
    """The kernel's own buffer per client, so that a reader who does not read shows."""
    write_s_max: float = 10.0
    """One write of a client's stream; slower readers are cut, their place is kept by their id."""
    stream_s_max: float = 900.0
    result_bytes_max: int = 8_388_608
    """Text collected for one answer in one piece; beyond it the store's copy is used."""
    drain_s: float = 20.0

    def __post_init__(self) -> None:
        for field in msgspec.structs.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int | float) and value < 0:
                raise ValueError(f"{field.name} is negative")
        for name in ("keep_alive_s", "silence_s_max", "store_ask_s", "write_s_max"):
            if getattr(self, name) == 0:
                raise ValueError(f"{name} is 0")
        if not 0 < self.resend_ms < self.decision_ms_max:
            raise ValueError("resend_ms lies between 0 and decision_ms_max")
        if not 0 < self.touch_s * 1_000 < self.disconnect_grace_ms:
            raise ValueError("touch_s lies between 0 and disconnect_grace_ms")

    def models_of(self, tier: str) -> frozenset[str]:
        """Aliases the tier may use; empty means all."""
        listed = {"free": self.free_models, "paid": self.paid_models}.get(tier, "")
        return frozenset(alias.strip() for alias in listed.split(",") if alias.strip())


def reply_partition(settings: EdgeSettings, name: str, partitions: int) -> int:
    """Where this edge hears its answers, among `partitions`.

    Raises:
        SettingsError: one that does not exist was given: nobody could ever answer there.
    """
    given = settings.reply_partition
    if given is None:
        return partition_of(name, partitions)
    if given >= partitions:
        raise SettingsError(f"MILENA_EDGE_REPLY_PARTITION={given}: give one below {partitions}")
    return given


def port_base(env: Mapping[str, str]) -> int:
    """
    Raises:
        SettingsError: not a number.
    """
    given = env.get("MILENA_PORT_BASE", str(_BASE_PORT))
    if not given.isdecimal():
        raise SettingsError(f"MILENA_PORT_BASE: {given!r} is not a port")
    return int(given)


def scripted_model_on(env: Mapping[str, str]) -> bool:
    return env.get("MILENA_SCRIPTED", "") == "1"


def secret_path(settings: EdgeSettings, env: Mapping[str, str]) -> Path:
    if settings.secret_file:
        return Path(settings.secret_file)
    return Path(env.get("MILENA_DATA", ".milena")) / "secret"


def secret_of(path: Path) -> bytes:
    """
    Raises:
        SettingsError: missing, unreadable, or not 32 bytes in hex.
    """
    try:
        return read_secret(path)
    except (OSError, ValueError) as error:
        reason = type(error).__name__
        raise SettingsError(
            f"MILENA_EDGE_SECRET_FILE: {path} holds no secret ({reason}); `milena up` makes it"
        ) from error
