"""The proof of a healthy world holds; each way to break it is found, with its place and both values."""

from typing import Any

import msgspec
import pytest

from ops.cli.verify import remarks
from ops.verify import prove as proving
from ops.verify.findings import Check, Difference, Unjudged
from ops.verify.prove import Span
from processors import marks, stored
from processors.admission.state import Account
from processors.machine import Event, Outputs
from schemas.generated import types as t
from tests.ops.verify.world import MACHINES, TOPIC_ID, World, answered, ask, finish
from tests.processors.events import submit
from topics import wire
from topics.registry import (
    ACCOUNTS_INBOX,
    CHANGELOGS,
    DEAD_LETTERS,
    EDGE_REPLIES,
    FACTS_ADMISSION,
    FACTS_SETTLEMENT,
    FACTS_USAGE,
    METERING_INBOX,
    RUNS_INBOX,
)

ACCOUNTS_LOG = CHANGELOGS["accounts"]


def only(world: World, **span: Any) -> Difference:
    """The one difference of the proof."""
    proof = world.prove(Span(**span))
    assert proof.count == 1, proof.differences
    return proof.differences[0]


async def test_a_healthy_log_is_proven() -> None:
    world = await answered("a", "b")
    await ask(world, submit("c", "a"))  # a repeat of a's key
    await ask(world, submit("d", "a", content="other"))  # a conflict
    proof = world.prove()
    assert proof.proven, proof.differences
    by_name = {one.machine: one for one in proof.machines}
    assert by_name.keys() == MACHINES.keys()
    for one in proof.machines:
        assert one.whole
        assert one.tally.events > 0
        assert one.tally.equal > 0
        assert one.outputs == one.outputs_found > 0
    assert by_name["accounts"].tally.keys == 1
    assert proof.generations == 2
    assert set(proof.tokens.values()) == {10}


async def test_events_before_the_span_need_no_output_any_more() -> None:
    world = await answered("a")
    world.remove(world.of(FACTS_ADMISSION)[0])
    assert only(world).check is Check.OUTPUT
    assert world.prove(Span(from_ms=world.now_ms + 1)).proven
    assert not world.prove(Span(to_ms=world.now_ms + 1)).proven
    assert world.prove(Span(to_ms=1)).proven


async def test_a_lost_state_record_is_found() -> None:
    world = await answered("a")
    last = world.of(ACCOUNTS_LOG)[-1]
    world.remove(last)
    found = only(world)
    assert (found.check, found.machine, found.key) == (Check.STATE, "accounts", "usr_1")
    assert (found.topic, found.field) == (ACCOUNTS_INBOX.name, "state")
    settle = [read.offset for read in world.of(ACCOUNTS_INBOX)][-1]
    assert (found.offset, found.log) == (settle, f"folded at {settle}")
    assert found.found.startswith("as of offset ")


async def test_a_key_lost_from_the_table_is_found() -> None:
    world = await answered("a")
    for read in world.of(ACCOUNTS_LOG):
        if read.key == "usr_1":
            world.remove(read)
    found = only(world)
    assert (found.check, found.key, found.found) == (Check.STATE, "usr_1", "absent")


async def test_a_key_that_no_event_made_is_found() -> None:
    world = await answered("a")
    last = world.of(ACCOUNTS_LOG)[-1]
    world.append(last.topic, last.partition, b"usr_2", last.value)
    found = only(world)
    assert (found.key, found.field, found.log) == ("usr_2", "offset", "no such event")


async def test_a_changed_counter_is_found_with_its_field_and_both_values() -> None:
    world = await answered("a")
    last = world.of(ACCOUNTS_LOG)[-1]
    assert last.value is not None
    held = stored.decode(last.value, Account)
    assert held.state is not None
    ((start_ms, window),) = held.state.windows.items()
    wrong = msgspec.structs.replace(
        held.state, windows={start_ms: msgspec.structs.replace(window, used=0)}
    )
    raw = stored.encode(
        msgspec.structs.replace(held, state=wrong), stored.encode_state(wrong), None
    )
    world.replace(last, value=raw)
    found = only(world)
    assert (found.check, found.key) == (Check.STATE, "usr_1")
    assert found.field == f"state.windows[{start_ms}].used"
    assert (found.log, found.found) == ("1", "0")


async def test_a_zombies_record_behind_the_owners_is_found_until_it_is_put_again() -> None:
    world = await answered("a")
    mine = [read for read in world.of(ACCOUNTS_LOG) if read.key == "usr_1"]
    world.append(mine[0].topic, mine[0].partition, b"usr_1", mine[0].value)
    found = only(world)
    assert (found.check, found.field) == (Check.FENCE, "last record")
    world.append(mine[-1].topic, mine[-1].partition, b"usr_1", mine[-1].value)
    assert world.prove().proven


@pytest.mark.parametrize("topic", [FACTS_SETTLEMENT, FACTS_USAGE, EDGE_REPLIES, METERING_INBOX])
async def test_a_lost_output_is_found(topic: Any) -> None:
    world = await answered("a")
    lost = world.of(topic)[-1]
    world.remove(lost)
    found = world.prove().differences
    wanted = [one for one in found if one.check is Check.OUTPUT and topic.name in one.field]
    assert [one.found for one in wanted] == ["absent"]


async def test_a_second_decision_is_found() -> None:
    """The same event decided twice in two ways: its other answer is made by no fold."""
    world = await answered("a")
    reply = world.of(EDGE_REPLIES)[0]
    told = wire.decode(t.EdgeReply, reply.value)
    refused = t.Refused(code=t.Code.QUOTA_EXHAUSTED, retryable=False)
    other = msgspec.structs.replace(told, event_id="another", body=refused)
    world.append(reply.topic, reply.partition, reply.key.encode(), wire.encode(other))
    found = only(world)
    assert (found.topic, found.field) == (EDGE_REPLIES.name, "Refused")
    assert (found.log, found.found) == ("made by no fold", "is there")


async def test_an_output_that_says_another_thing_is_found() -> None:
    world = await answered("a")
    fact = world.of(FACTS_USAGE)[0]
    told = wire.decode(t.UsageFact, fact.value)
    world.append(
        fact.topic,
        fact.partition,
        fact.key.encode(),
        wire.encode(msgspec.structs.replace(told, output_tokens=told.output_tokens + 1)),
    )
    found = only(world)
    assert (found.machine, found.field) == ("metering", "UsageFact.output_tokens")
    assert (found.log, found.found) == ("5", "6")


async def test_duplicates_are_allowed_and_count_once() -> None:
    world = await answered("a")
    for topic in (FACTS_USAGE, FACTS_SETTLEMENT, FACTS_ADMISSION, EDGE_REPLIES):
        for read in world.of(topic):
            world.append(read.topic, read.partition, read.key.encode(), read.value)
    proof = world.prove()
    assert proof.proven, proof.differences
    assert set(proof.tokens.values()) == {5}


async def test_a_producers_duplicate_at_another_offset_is_one_request() -> None:
    world = await answered("a")
    await ask(world, submit("a", "a"), event_id="s-a")
    proof = world.prove()
    assert proof.proven, proof.differences


async def test_tokens_told_twice_are_found() -> None:
    """A second usage fact of another epoch for one settlement."""
    world = await answered("a")
    fact = world.of(FACTS_USAGE)[0]
    world.remove(fact)
    found = world.prove().differences
    assert {one.check for one in found} == {Check.OUTPUT, Check.USAGE}
    usage = next(one for one in found if one.check is Check.USAGE)
    assert (usage.key, usage.field, usage.found) == ("g-a", "usage fact", "absent")
    assert usage.log == "7 in, 0 cached, 5 out"


async def test_dead_letters_are_held_up_to_the_events_that_cannot_be_folded() -> None:
    world = await answered("a")
    world.tell(ACCOUNTS_INBOX, "usr_1", b"not avro")
    await world.run()
    assert world.prove().proven
    (letter,) = world.of(DEAD_LETTERS["accounts"])
    world.remove(letter)
    lost = only(world)
    assert (lost.check, lost.found) == (Check.DEAD_LETTER, "absent")
    headers = {**dict(letter.headers), "milena-dlq-offset": b"0"}
    world.append(
        letter.topic, letter.partition, letter.key.encode(), letter.value, tuple(headers.items())
    )
    found = world.prove().differences
    assert {one.check for one in found} == {Check.DEAD_LETTER}
    assert any("can be folded" in one.log for one in found)


async def test_an_event_in_flight_cannot_be_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "SETTLE_S_MAX", 0.0)
    world = await answered("a")
    world.tell(ACCOUNTS_INBOX, "usr_1", t.AccountsInbox(event_id="late", body=submit("z", "z")))
    with pytest.raises(Unjudged, match=r"1 events .* in flight: accounts committed"):
        world.prove()
    assert world.prove(machines=("runs", "metering")).proven


async def test_other_plans_are_another_question(monkeypatch: pytest.MonkeyPatch) -> None:
    from processors.admission.machine import accounts_machine
    from processors.admission.settings import AccountsSettings

    world = await answered("a")
    other = accounts_machine(AccountsSettings(messages_max_free=9).plans())
    monkeypatch.setitem(MACHINES, "accounts", other)
    with pytest.raises(Unjudged, match="accounts decided under plans"):
        world.prove()


async def test_a_log_that_retention_cut_is_proven_from_the_recorded_state() -> None:
    world = await answered("a", "b")
    partition = next(p for (name, p) in world.records if name == RUNS_INBOX.name)
    reads = world.records[(RUNS_INBOX.name, partition)]
    cut_at = reads[len(reads) // 2]
    world.cut(RUNS_INBOX, partition, cut_at.offset)
    proof = world.prove()
    assert proof.proven, proof.differences
    runs = next(one for one in proof.machines if one.machine == "runs")
    assert (runs.cut_ms, runs.tally.adopted, runs.tally.unproven) == (cut_at.append_ms, 1, 0)
    assert runs.tally.equal == 1
    assert not runs.whole
    with pytest.raises(Unjudged, match="retention cut"):
        world.prove(Span(from_ms=cut_at.append_ms - 1))
    assert world.prove(Span(from_ms=cut_at.append_ms)).proven


async def test_a_cut_log_still_shows_what_was_lost_behind_the_cut() -> None:
    world = await answered("a", "b")
    partition = next(p for (name, p) in world.records if name == RUNS_INBOX.name)
    reads = world.records[(RUNS_INBOX.name, partition)]
    world.cut(RUNS_INBOX, partition, reads[len(reads) // 2].offset)
    last = [read for read in world.of(CHANGELOGS["runs"]) if read.key == "run_1"][-1]
    world.remove(last)
    found = only(world)
    assert (found.check, found.machine, found.key) == (Check.STATE, "runs", "run_1")


async def test_a_compacted_changelog_is_proven_and_says_of_what_nothing_is() -> None:
    world = await answered("a", "b")
    for changelog in CHANGELOGS.values():
        world.compact(changelog)
    assert world.prove().proven
    partition = next(p for (name, p) in world.records if name == RUNS_INBOX.name)
    world.cut(RUNS_INBOX, partition, 4)
    proof = world.prove()
    assert proof.proven, proof.differences
    runs = next(one for one in proof.machines if one.machine == "runs")
    assert (runs.tally.adopted, runs.tally.unproven) == (1, 1)


async def test_each_event_is_judged_by_the_rules_it_was_decided_by(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upgrade in the middle of the log: later rules tell usage as void."""
    first = MACHINES["metering"]

    def later(state: Any, event: Event) -> tuple[Any, Outputs]:
        after, outputs = first.fold(state, event)
        void = (
            msgspec.structs.replace(one, value=msgspec.structs.replace(one.value, void=True))
            for one in outputs
        )
        return after, tuple(void)

    world = await answered("a")
    second = msgspec.structs.replace(first, fold=later, rules=2, earlier={1: first.fold})
    monkeypatch.setitem(MACHINES, "metering", second)
    await world.run()
    await ask(world, submit("b", "b"))
    await finish(world, "b")
    proof = world.prove(machines=("metering",))
    assert proof.proven, proof.differences
    assert [wire.decode(t.UsageFact, one.value).void for one in world.of(FACTS_USAGE)] == [
        False,
        True,
    ]
    monkeypatch.setitem(MACHINES, "metering", first)
    with pytest.raises(Unjudged, match="metering decided by rules 2"):
        world.prove(machines=("metering",))
    only_later = msgspec.structs.replace(first, fold=later)
    monkeypatch.setitem(MACHINES, "metering", only_later)
    with pytest.raises(Unjudged, match="metering decided by rules 2"):
        world.prove(machines=("metering",))


async def test_an_adopted_inbox_is_proven_from_what_was_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await answered("a")
    inbox = METERING_INBOX.name
    for (name, partition), reads in world.records.items():
        if name == inbox:
            reads.clear()
            world.taken[(name, partition)] = 0
    changelog = CHANGELOGS["metering"]
    for partition in range(4):
        raw = next(
            read.value
            for read in world.of(changelog)
            if read.partition == partition and read.key.startswith("\0")
        )
        assert raw is not None
        mark = marks.adopted(marks.decode(raw), TOPIC_ID)
        world.append(changelog.name, partition, marks.key_of(partition), marks.encode(mark))
    await world.run()
    await ask(world, submit("b", "b"))
    await finish(world, "b")
    proof = world.prove(machines=("metering",))
    assert proof.proven, proof.differences
    (metering,) = proof.machines
    assert (metering.whole, metering.recreated, metering.tally.adopted) == (False, 4, 1)
    assert metering.tally.events > 0
    assert "its inbox was re-created; 1 keys" in "".join(remarks(proof))
