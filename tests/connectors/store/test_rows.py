"""Timestamps, statements, keys and ids of the store; no server needed."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.store import RowPhase, row_timestamp, statements
from connectors.store.keys import hash_key, mint, mint_id, read_secret
from connectors.store.rows import TEXT_BYTES_MAX, Key, Payload, Result, fit_text
from connectors.store.schema import MIGRATIONS, VERSION

ROOT = Path(__file__).parents[3]
PLACES = st.tuples(st.integers(0, 2**43), st.integers(0, 124), st.sampled_from(RowPhase))


@given(PLACES, PLACES)
def test_timestamps_order_as_admission_epoch_and_phase(
    one: tuple[int, int, RowPhase], other: tuple[int, int, RowPhase]
) -> None:
    assert (one < other) == (row_timestamp(*one) < row_timestamp(*other))
    assert row_timestamp(*one) < 2**63


def test_text_is_cut_between_code_points_only_where_no_row_can_hold_it() -> None:
    for text in ("", "short", "é" * (TEXT_BYTES_MAX // 2), "x" * TEXT_BYTES_MAX):
        assert fit_text(text) is text
    cut = fit_text("x" + "🎉" * (TEXT_BYTES_MAX // 4))
    assert cut == "x" + "🎉" * (TEXT_BYTES_MAX // 4 - 1)


def test_an_epoch_out_of_bounds_has_no_timestamp() -> None:
    for epoch in (-1, 125):
        with pytest.raises(ValueError):
            row_timestamp(1, epoch, RowPhase.FINAL)


@pytest.mark.parametrize(
    ("table", "row"), [("payloads", Payload), ("results", Result), ("keys", Key)]
)
def test_every_insert_names_every_column_of_its_table(
    table: str, row: type[Payload] | type[Result] | type[Key]
) -> None:
    created = next(
        statement
        for _, some in MIGRATIONS
        for statement in some
        if f"IF NOT EXISTS {table} " in statement
    )
    declared = set(re.findall(r"^  (\w+) \w+", created, re.MULTILINE))
    inserts = [
        statement
        for statement in statements.ALL
        if f"INSERT INTO {{keyspace}}.{table} " in statement
    ]
    assert len(inserts) == 1
    named = re.search(r"\(([^)]*)\) VALUES", inserts[0])
    assert named is not None
    assert set(named[1].split(", ")) == declared == set(statements.columns(row))


def test_results_are_written_with_explicit_timestamps_and_nowhere_else() -> None:
    assert statements.INSERT_RESULT.endswith("USING TIMESTAMP ? AND TTL ?")
    written = re.compile(
        r"(INSERT\s+INTO|UPDATE|DELETE\s+.*FROM)\s+(\{?\w+\}*\.)?results\b", re.IGNORECASE
    )
    packages = ("processors", "edge", "inference", "connectors", "ops")
    found = [
        path
        for package in packages
        for path in (ROOT / package).rglob("*.py")
        if written.search(path.read_text("utf-8"))
    ]
    assert found == []
    assert [s for s in statements.ALL if written.search(s)] == [statements.INSERT_RESULT]


def test_migrations_count_up_and_only_add() -> None:
    versions = [version for version, _ in MIGRATIONS]
    assert versions == [*range(1, VERSION + 1)]
    for _, some in MIGRATIONS:
        assert all("IF NOT EXISTS" in statement for statement in some)


def test_keys_and_ids_have_their_shape() -> None:
    key = mint(bytes(range(24)))
    assert re.fullmatch(r"mk_[A-Za-z0-9_-]{32}", key)
    assert re.fullmatch(r"usr_[0-9A-HJKMNP-TV-Z]{26}", mint_id("usr", 1_796_000_000_000, bytes(10)))
    assert mint_id("usr", 1, bytes(10)) < mint_id("usr", 2, bytes(10))
    with pytest.raises(ValueError):
        mint(b"short")
    with pytest.raises(ValueError):
        mint_id("usr", 1, b"short")


def test_a_hash_needs_the_secret() -> None:
    assert hash_key(b"a" * 32, "mk_1") == hash_key(b"a" * 32, "mk_1")
    assert (
        len({hash_key(b"a" * 32, "mk_1"), hash_key(b"b" * 32, "mk_1"), hash_key(b"a" * 32, "mk_2")})
        == 3
    )


def test_the_secret_is_read_from_hex(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text((b"s" * 32).hex() + "\n")
    assert read_secret(path) == b"s" * 32
    for wrong in ("", "ab", "zz" * 32):
        path.write_text(wrong)
        with pytest.raises(ValueError):
            read_secret(path)
