"""Tables of the store and how they come to be. Owns every CREATE statement.

Migrations only add; each is applied once, in order, and may be repeated after a crash. A process
that opens the store with another version refuses to start.
"""

from typing import Any, Final

from cassandra import DriverException
from cassandra.cluster import NoHostAvailable

from connectors.errors import StoreUnavailable
from connectors.store.session import MIGRATION_STATEMENT_S_MAX, new_cluster
from connectors.store.settings import StoreSettings

VERSIONS_TABLE: Final = """\
CREATE TABLE IF NOT EXISTS schema_versions (
  version int PRIMARY KEY,
  applied_at_ms bigint
)"""
PAYLOADS: Final = """\
CREATE TABLE IF NOT EXISTS payloads (
  generation_id text PRIMARY KEY,
  user_id text,
  runs_key text,
  api text,
  model text,
  model_version text,
  body blob,
  created_at_ms bigint
)"""
RESULTS: Final = """\
CREATE TABLE IF NOT EXISTS results (
  generation_id text PRIMARY KEY,
  user_id text,
  status text,
  model text,
  epoch int,
  text text,
  code_points int,
  finish_reason text,
  error_code text,
  partial boolean,
  input_tokens int,
  cached_input_tokens int,
  output_tokens int,
  hold text,
  terminal_id text,
  admitted_at_ms bigint,
  ended_at_ms bigint
)"""
KEYS: Final = """\
CREATE TABLE IF NOT EXISTS keys (
  key_hash blob PRIMARY KEY,
  key_id text,
  user_id text,
  tier text,
  name text,
  created_at_ms bigint,
  revoked_at_ms bigint
)"""

MIGRATIONS: Final[tuple[tuple[int, tuple[str, ...]], ...]] = ((1, (PAYLOADS, RESULTS, KEYS)),)
"""(version, statements); each statement is harmless twice."""
VERSION: Final = MIGRATIONS[-1][0]


def migrate(settings: StoreSettings, at_ms: int) -> tuple[int, ...]:
    """Creates the keyspace and applies what is missing; returns the versions applied now. Blocks.

    Raises:
        StoreUnavailable: no answer in time; running it again goes on where it stopped.
    """
    cluster = new_cluster(settings)
    try:
        session = cluster.connect()
        _run(session, _keyspace(settings))
        session.set_keyspace(settings.keyspace)
        _run(session, VERSIONS_TABLE)
        known = applied_versions(session, settings.keyspace)
        new = tuple(version for version, _ in MIGRATIONS if version not in known)
        for version, statements in MIGRATIONS:
            if version in new:
                for statement in statements:
                    _run(session, statement)
                session.execute(
                    "INSERT INTO schema_versions (version, applied_at_ms) VALUES (%s, %s)",
                    (version, at_ms),
                )
        return new
    except (DriverException, NoHostAvailable, OSError) as error:
        raise StoreUnavailable(f"store away during migration: {type(error).__name__}") from error
    finally:
        cluster.shutdown()


def applied_versions(session: Any, keyspace: str) -> frozenset[int]:
    """Versions the keyspace has. Blocks."""
    rows = session.execute(f"SELECT version FROM {keyspace}.schema_versions")  # noqa: S608
    return frozenset(row["version"] for row in rows)


def _keyspace(settings: StoreSettings) -> str:
    replication = (
        f"{{'class': 'NetworkTopologyStrategy', "
        f"'{settings.datacenter}': {settings.replication_factor}}}"
    )
    return f"CREATE KEYSPACE IF NOT EXISTS {settings.keyspace} WITH replication = {replication}"


def _run(session: Any, statement: str) -> None:
    session.execute(statement, timeout=MIGRATION_STATEMENT_S_MAX)
