"""A registry is brought to the released ids, whatever its manners, or refused before it is touched."""

import json

import msgspec
import pytest

from ops.schema_registry.client import RegistryAway, RegistryClient, RegistryRefused
from ops.schema_registry.sync import Mismatch, check, sync
from ops.schema_registry.wanted import Finding, Subject, What, subjects, text_of
from schemas.release import Release, releases
from tests.ops.schema_registry.registry_double import URL, Kind, RegistryDouble
from topics.registry import FACTS_RUNS, LANE_TOPICS, PLANS, TOPICS

WANTED = subjects()
KINDS = list(Kind)


def client(registry: RegistryDouble) -> RegistryClient:
    return RegistryClient(URL, registry.transport)


def findings(registry: RegistryDouble) -> tuple[Finding, ...]:
    with client(registry) as asked:
        return check(asked, WANTED)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fresh_registry_gets_every_release_under_its_id(kind: Kind) -> None:
    registry = RegistryDouble(kind)
    assert findings(registry), "nothing is there"
    with client(registry) as asked:
        done = sync(asked, WANTED)
    assert len(done.registered) == sum(len(subject.releases) for subject in WANTED)
    assert {name for name, _ in done.registered} == {
        topic.subject for topic in TOPICS if topic.record is not None
    }
    assert findings(registry) == ()
    for subject in WANTED:
        assert registry.subjects[subject.name] == [r.id for r in subject.releases]
        assert registry.levels[subject.name] == subject.compatibility
    assert set(registry.modes.values()) <= {"READWRITE"}, "no mode is left behind"


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_time_changes_nothing(kind: Kind) -> None:
    registry = RegistryDouble(kind)
    with client(registry) as asked:
        sync(asked, WANTED)
        before = registry.writes
        assert sync(asked, WANTED).registered == ()
    assert registry.writes == before


def test_lanes_share_one_id() -> None:
    registry = RegistryDouble(Kind.APICURIO)
    with client(registry) as asked:
        sync(asked, WANTED)
    step = releases()["StepRequest"][-1].id
    assert {registry.subjects[topic.subject][-1] for topic in LANE_TOPICS.values()} == {step}


@pytest.mark.parametrize("kind", [Kind.APICURIO, Kind.CONFLUENT])
def test_a_later_release_gets_its_id_though_others_were_burnt(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registering the lanes again and again moved Apicurio's counter far past our next id."""
    registry = RegistryDouble(kind)
    with client(registry) as asked:
        sync(asked, WANTED)
        newest = max(release.id for every in releases().values() for release in every)
        fresh = evolved("RunFact", newest + 1)
        monkeypatch.setattr("ops.schema_registry.sync.text_of", written)
        wanted = [with_release(subject, fresh) for subject in WANTED]
        done = sync(asked, wanted)
        assert done.registered == ((FACTS_RUNS.subject, fresh.id),)
        assert check(asked, wanted) == ()
    assert registry.subjects[FACTS_RUNS.subject][-1] == fresh.id


def test_a_registry_that_gives_other_ids_is_told_from_ours() -> None:
    registry = RegistryDouble(Kind.PLAIN)
    registry._next = 100
    with client(registry) as asked, pytest.raises(Mismatch) as refused:
        sync(asked, WANTED)
    text = str(refused.value)
    assert "found id 100" in text
    assert "expected id 1 for AccountsInbox" in text
    assert len(registry.subjects) == 1, "it stops at the first"


def test_an_id_that_is_taken_refuses_before_anything_is_written() -> None:
    registry = RegistryDouble(Kind.APICURIO)
    registry._register("theirs-value", {"schema": json.dumps({"type": "long"})})
    writes = registry.writes
    with client(registry) as asked, pytest.raises(RegistryRefused, match="id 1 found for"):
        sync(asked, WANTED)
    assert registry.writes == writes


def test_somebody_registered_past_us() -> None:
    registry = RegistryDouble(Kind.APICURIO)
    with client(registry) as asked:
        sync(asked, WANTED)
        registry._register(PLANS.subject, {"schema": json.dumps({"type": "long"})})
        found = check(asked, WANTED)
        assert [(f.subject, f.what) for f in found] == [(PLANS.subject, What.LATEST)]
        writes = registry.writes
        with pytest.raises(Mismatch, match=PLANS.subject):
            sync(asked, WANTED)
    assert registry.writes == writes


def test_our_schema_under_a_foreign_id_is_named() -> None:
    registry = RegistryDouble(Kind.PLAIN)
    registry._next = 100
    release = releases()["Plan"][-1]
    registry._register(PLANS.subject, {"schema": text_of(release)})
    found = [f for f in findings(registry) if f.subject == PLANS.subject and f.what is What.ID]
    assert len(found) == 1
    assert (found[0].found, found[0].expected) == ("id 100", f"id {release.id} for Plan.v1")


def test_a_compatibility_that_was_changed_is_set_again() -> None:
    registry = RegistryDouble(Kind.APICURIO)
    with client(registry) as asked:
        sync(asked, WANTED)
        registry.levels[FACTS_RUNS.subject] = "NONE"
        assert [f.what for f in check(asked, WANTED)] == [What.COMPATIBILITY]
        assert sync(asked, WANTED).compatibility_set == (FACTS_RUNS.subject,)
    assert registry.levels[FACTS_RUNS.subject] == "FULL_TRANSITIVE"


def test_what_was_interrupted_goes_on() -> None:
    registry = RegistryDouble(Kind.APICURIO)
    with client(registry) as asked:
        sync(asked, WANTED[:7])
        assert sync(asked, WANTED).registered
    assert findings(registry) == ()


def test_an_absent_registry_says_so() -> None:
    registry = RegistryDouble(Kind.PLAIN)
    registry.away = True
    with client(registry) as asked, pytest.raises(RegistryAway, match="registry:8081"):
        sync(asked, WANTED)


def evolved(record: str, given: int) -> Release:
    old = releases()[record][-1]
    field = {"name": "fresh", "type": "long", "doc": "New.", "default": 0}
    schema = {**old.schema, "fields": [*old.schema["fields"], field]}
    return Release(record, old.version + 1, given, schema)


def written(release: Release) -> str:
    return json.dumps(release.schema)


def with_release(subject: Subject, fresh: Release) -> Subject:
    if subject.releases[-1].record != fresh.record:
        return subject
    return msgspec.structs.replace(subject, releases=(*subject.releases, fresh))
