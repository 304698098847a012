"""The CQL driver's session, made from the settings: one place for its options.

Owns consistency, deadlines and reconnection; knows no table.
"""

from typing import Any, Final

from cassandra import ConsistencyLevel
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile

# Imported by name: without libev the driver would fall back to a slow reactor and say nothing.
from cassandra.io.libevreactor import LibevConnection
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    TokenAwarePolicy,
)
from cassandra.query import dict_factory

from connectors.store.settings import StoreSettings

RECONNECT_EVERY_S: Final = 1.0
MIGRATION_STATEMENT_S_MAX: Final = 60.0


def new_cluster(settings: StoreSettings) -> Any:
    """Not connected yet; its `connect` blocks."""
    profile = ExecutionProfile(
        load_balancing_policy=TokenAwarePolicy(
            DCAwareRoundRobinPolicy(local_dc=settings.datacenter)
        ),
        consistency_level=ConsistencyLevel.LOCAL_QUORUM,
        request_timeout=settings.deadline_s,
        row_factory=dict_factory,
    )
    return Cluster(
        contact_points=settings.contact_points(),
        port=settings.port,
        connection_class=LibevConnection,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile},
        reconnection_policy=ConstantReconnectionPolicy(RECONNECT_EVERY_S, max_attempts=None),
        connect_timeout=settings.deadline_s,
        control_connection_timeout=settings.deadline_s,
        compression=False,
        idle_heartbeat_interval=5,
        idle_heartbeat_timeout=5,
    )
