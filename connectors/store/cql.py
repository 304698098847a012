"""The store over CQL: ScyllaDB or Apache Cassandra, the same statements on both.

Owns the bridge from the driver's threads to the loop, and the mapping of its failures.
"""

import asyncio
from typing import Any, TypeVar

import msgspec
from cassandra import DriverException, InvalidRequest, Unauthorized
from cassandra.cluster import NoHostAvailable
from cassandra.protocol import SyntaxException

from connectors.errors import StoreUnavailable, Unfit
from connectors.store import statements
from connectors.store.rows import Key, Payload, Result, RowPhase, check_size, row_timestamp
from connectors.store.schema import VERSION, applied_versions
from connectors.store.session import new_cluster
from connectors.store.settings import StoreSettings

Row = TypeVar("Row", bound=msgspec.Struct)

_WRONG = (InvalidRequest, SyntaxException, Unauthorized)
_AWAY = (DriverException, NoHostAvailable, OSError)


class CqlStore:
    """Made by `open`. A lost connection is re-made by the driver; calls meanwhile fail at once."""

    def __init__(self, settings: StoreSettings, cluster: Any, session: Any) -> None:
        self._settings = settings
        self._cluster = cluster
        self._session = session
        self._prepared: dict[str, Any] = {}

    @classmethod
    async def open(cls, settings: StoreSettings) -> "CqlStore":
        """Connected, checked and with every statement prepared.

        Raises:
            StoreUnavailable: nobody answers; try again.
            Unfit: the keyspace is missing or has another version; the message says what to do.
        """
        return await asyncio.to_thread(cls._open, settings)

    @classmethod
    def _open(cls, settings: StoreSettings) -> "CqlStore":
        cluster = new_cluster(settings)
        try:
            store = cls(settings, cluster, cluster.connect())
            store._prepare()
        except BaseException as error:
            cluster.shutdown()
            if isinstance(error, _WRONG):
                raise Unfit(_migrate_first(settings.keyspace)) from error
            if isinstance(error, _AWAY):
                raise StoreUnavailable(f"store away: {type(error).__name__}") from error
            raise
        return store

    def _prepare(self) -> None:
        keyspace = self._settings.keyspace
        found = applied_versions(self._session, keyspace)
        if max(found, default=0) != VERSION:
            raise Unfit(_migrate_first(keyspace))
        for statement in statements.ALL:
            prepared = self._session.prepare(statement.format(keyspace=keyspace))
            prepared.is_idempotent = True
            self._prepared[statement] = prepared

    async def close(self) -> None:
        await asyncio.to_thread(self._cluster.shutdown)

    async def put_payload(self, row: Payload) -> None:
        check_size(row.body)
        await self._ask(
            statements.INSERT_PAYLOAD, *statements.values(row), self._settings.payloads_ttl_s
        )

    async def payload(self, generation_id: str) -> Payload | None:
        return _one(Payload, await self._ask(statements.SELECT_PAYLOAD, generation_id))

    async def put_result(self, row: Result, phase: RowPhase) -> None:
        check_size(row.text)
        written_at_us = row_timestamp(row.admitted_at_ms, row.epoch, phase)
        await self._ask(
            statements.INSERT_RESULT,
            *statements.values(row),
            written_at_us,
            self._settings.results_ttl_s,
        )

    async def result(self, generation_id: str) -> Result | None:
        return _one(Result, await self._ask(statements.SELECT_RESULT, generation_id))

    async def put_key(self, row: Key) -> None:
        await self._ask(statements.INSERT_KEY, *statements.values(row))

    async def key(self, key_hash: bytes) -> Key | None:
        return _one(Key, await self._ask(statements.SELECT_KEY, key_hash))

    async def keys(self) -> list[Key]:
        return [msgspec.convert(row, Key) for row in await self._ask(statements.SELECT_KEYS)]

    async def _ask(self, statement: str, *bound: object) -> list[dict[str, Any]]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[dict[str, Any]]] = loop.create_future()

        def settle(rows: list[dict[str, Any]] | None, error: Exception | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(rows or [])
            else:
                answer.set_exception(error)

        def told(rows: list[dict[str, Any]] | None, error: Exception | None = None) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, rows, error)

        try:
            self._session.execute_async(
                self._prepared[statement], bound, timeout=self._settings.deadline_s
            ).add_callbacks(told, lambda error: told(None, error))
            return await answer
        except _WRONG as error:
            # The driver's text may quote a row; ours must not.
            raise Unfit(
                f"the store refuses a statement ({type(error).__name__}): "
                f"see `milena store migrate` if tables are missing"
            ) from error
        except _AWAY as error:
            raise StoreUnavailable(f"store away: {type(error).__name__}") from error


def _one(kind: type[Row], rows: list[dict[str, Any]]) -> Row | None:
    return msgspec.convert(rows[0], kind) if rows else None


def _migrate_first(keyspace: str) -> str:
    return f"keyspace {keyspace} lacks tables of version {VERSION}: run `milena store migrate`"
