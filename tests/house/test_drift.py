"""What is generated or frozen is as its source says."""

from schemas.catalogue import whole
from schemas.codegen import TARGET, render
from schemas.release import INDEX, RELEASED, releases, roots


def test_the_committed_types_are_those_of_the_schemas() -> None:
    assert TARGET.read_text(encoding="utf-8") == render(), "run `python -m schemas.codegen`"


def test_the_newest_release_is_the_schema_of_today() -> None:
    stale = [name for name in roots() if releases()[name][-1].schema != whole(name)]
    assert not stale, f"{stale}: run `python -m schemas.release`"


def test_releases_are_numbered_without_a_gap() -> None:
    every = [release for versions in releases().values() for release in versions]
    assert sorted(release.id for release in every) == list(range(1, len(every) + 1))
    for record, versions in releases().items():
        assert [v.version for v in versions] == list(range(1, len(versions) + 1)), record
        assert [v.id for v in versions] == sorted(v.id for v in versions), record


def test_no_released_file_is_an_orphan() -> None:
    named = {f"{r.record}.v{r.version}.json" for v in releases().values() for r in v}
    there = {path.name for path in RELEASED.glob("*.json")} - {INDEX.name}
    assert there == named
