"""`milena keys create|list|revoke`: who may ask. A key is shown once; only its keyed hash is kept."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.console import AsJson, CommandError, ExitCode, columns, note, result, unreachable

if TYPE_CHECKING:
    from connectors.store.rows import Key
    from connectors.store.store import Store


class TierName(StrEnum):
    """The tiers a key can have."""

    FREE = "free"
    PAID = "paid"
    OPERATOR = "operator"


OfTier = Annotated[TierName, typer.Option("--tier", help="The plan tier of the key's user.")]
Name = Annotated[str, typer.Option(help="A word to find it by; never shown to others.")]
User = Annotated[str, typer.Option(help="A user that exists, usr_…; else a new one.")]
KeyId = Annotated[str, typer.Argument(help="From `milena keys list`, key_….", metavar="KEY_ID")]


def register(app: typer.Typer) -> None:
    """Adds the group to the program."""
    group = typer.Typer(help="API keys.", no_args_is_help=True)
    group.command()(create)
    group.command("list")(list_)
    group.command()(revoke)
    group.command(hidden=True)(seed)
    app.add_typer(group, name="keys")


def create(
    tier: OfTier = TierName.FREE, name: Name = "", user: User = "", as_json: AsJson = False
) -> None:
    """Create a key and show it, once."""
    from ops.cli.keys_book import new_key, new_row
    from schemas.generated.types import Tier
    from topics.runtime.clock import wall_ms

    secret, key = _secret(), new_key(os.urandom)
    row = new_row(key, secret, Tier(tier.value), name, wall_ms(), os.urandom, user)

    async def put() -> None:
        async with _store() as store:
            await store.put_key(row)

    asyncio.run(put())
    document = {"key": key, "key_id": row.key_id, "user_id": row.user_id, "tier": row.tier}
    result(document, [key], as_json=as_json)
    note(f"{row.key_id} for {row.user_id}, tier {row.tier}: shown once, only a hash is kept")


def list_(as_json: AsJson = False) -> None:
    """List the keys, never the keys themselves."""

    async def ask() -> list[Key]:
        async with _store() as store:
            return await store.keys()

    found = sorted(asyncio.run(ask()), key=lambda row: row.key_id)
    document = [
        {
            "key_id": row.key_id,
            "user_id": row.user_id,
            "tier": row.tier,
            "name": row.name,
            "created_at_ms": row.created_at_ms,
            "revoked_at_ms": row.revoked_at_ms,
        }
        for row in found
    ]
    rows = [("key", "user", "tier", "name", "created (UTC)", "revoked (UTC)")]
    rows += [
        (r.key_id, r.user_id, r.tier.value, r.name, _day(r.created_at_ms), _day(r.revoked_at_ms))
        for r in found
    ]
    result({"keys": document}, columns(rows), as_json=as_json)


def revoke(key_id: KeyId, as_json: AsJson = False) -> None:
    """Revoke a key: whoever sends it is refused from now on. Harmless twice."""
    from ops.cli import keys_book
    from topics.runtime.clock import wall_ms

    async def change() -> Key | None:
        async with _store() as store:
            return await keys_book.revoke(store, key_id, wall_ms())

    row = asyncio.run(change())
    if row is None:
        raise CommandError(f"there is no key {key_id}", "milena keys list")
    document = {"key_id": row.key_id, "revoked_at_ms": row.revoked_at_ms}
    result(document, [f"revoked {row.key_id}"], as_json=as_json)


def seed(as_json: AsJson = False) -> None:
    """Make the local stack's keys, one a tier, in $MILENA_DATA/keys.json. Harmless twice."""
    from ops.cli import environment, keys_book
    from schemas.generated.types import Tier
    from topics.runtime.clock import wall_ms

    secret, path = _secret(), environment.keys_file(os.environ)

    async def make() -> list[Tier]:
        async with _store() as store:
            return await keys_book.seed(store, secret, path, wall_ms(), os.urandom)

    try:
        written = asyncio.run(make())
    except (OSError, ValueError) as error:
        raise CommandError(f"keys were not made: {error}", "milena doctor") from error
    lines = [f"made the {tier} key" for tier in written] or ["nothing to do"]
    result({"file": str(path), "made": written}, lines, as_json=as_json)


@asynccontextmanager
async def _store() -> AsyncIterator[Store]:
    from connectors.errors import StoreUnavailable
    from connectors.store.cql import CqlStore
    from connectors.store.settings import StoreSettings
    from ops.cli.environment import filled
    from topics.runtime.settings import read

    settings = read(StoreSettings, "STORE", filled(os.environ))
    try:
        store = await CqlStore.open(settings)
        try:
            yield store
        finally:
            await store.close()
    except StoreUnavailable as error:
        raise unreachable("the store", f"{settings.hosts}:{settings.port}") from error


def _secret() -> bytes:
    from connectors.store.keys import read_secret
    from ops.cli import environment

    path = environment.secret_file(os.environ)
    try:
        return read_secret(path)
    except (OSError, ValueError) as error:
        raise CommandError(
            f"no secret in {path}, where MILENA_DATA says the stack lives",
            "milena up",
            ExitCode.BAD_SETTING,
        ) from error


def _day(at_ms: int | None) -> str:
    if at_ms is None:
        return ""
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M")
