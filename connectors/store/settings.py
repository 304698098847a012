"""Settings `MILENA_STORE_…`. Holds bounds, opens nothing."""

import msgspec


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the store is, how long a call may take and how long rows live."""

    hosts: str = "127.0.0.1"
    """Comma-separated contact points."""
    port: int = 8012
    keyspace: str = "milena"
    datacenter: str = "datacenter1"
    replication_factor: int = 1
    """Used once, when `migrate` creates the keyspace."""
    deadline_s: float = 5.0
    """One statement, from asking to the answer."""
    results_ttl_s: int = 3_600
    payloads_ttl_s: int = 4_500
    """Longer than a result by the longest queue wait and run, so that no result loses its owner."""

    def contact_points(self) -> list[str]:
        return [host.strip() for host in self.hosts.split(",") if host.strip()]
