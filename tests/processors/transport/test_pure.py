"""The pure parts: offsets, rebuild, strangers, fence, watchdog."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.transport.fence import Fence
from processors.transport.offsets import Offsets, Recreated
from processors.transport.rebuild import Rebuild
from processors.transport.strangers import Cut, Span, Strangers
from processors.transport.watchdog import Standing, Watchdog
from tests.processors.transport.drivers import INBOX


def taken(offsets: Offsets, *at: int) -> int:
    number = offsets.assigned({INBOX})
    for offset in at:
        assert offsets.taken(INBOX, offset, number)
    return number


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20, unique=True).map(sorted),
    st.data(),
)
def test_what_is_open_is_never_passed_and_what_is_done_is_committed(
    log: list[int], data: st.DataObject
) -> None:
    offsets = Offsets()
    number = taken(offsets, *log)
    done = data.draw(st.lists(st.sampled_from(log), unique=True))
    for offset in done:
        offsets.acknowledged(INBOX, offset, number)
    left = [offset for offset in log if offset not in done]
    expected = left[0] if left else log[-1] + 1
    assert offsets.to_commit().get(INBOX, 0) == (expected if done else 0)


def test_an_acknowledgement_from_before_a_revocation_is_void() -> None:
    offsets = Offsets()
    old = taken(offsets, 5)
    offsets.revoked()
    number = offsets.assigned({INBOX})
    assert not offsets.taken(INBOX, 6, old)
    offsets.acknowledged(INBOX, 5, old)
    assert offsets.to_commit() == {}
    assert offsets.taken(INBOX, 5, number)
    offsets.acknowledged(INBOX, 5, old)
    assert offsets.to_commit() == {}


def test_an_offset_that_comes_again_is_another_topic() -> None:
    offsets = Offsets()
    number = taken(offsets, 5)
    with pytest.raises(Recreated, match="partition 0 went back to offset 0"):
        offsets.taken(INBOX, 0, number)


def test_what_is_committed_is_not_offered_again() -> None:
    offsets = Offsets()
    number = taken(offsets, 5)
    offsets.acknowledged(INBOX, 5, number)
    assert offsets.to_commit() == {INBOX: 6}
    offsets.committed(INBOX, 6)
    assert offsets.to_commit() == {}
    assert offsets.committed_at(INBOX) == 6


Put = tuple[bytes, bytes | None, int | None]


def table(puts: Iterable[Put]) -> dict[bytes, bytes]:
    rebuild = Rebuild()
    for put in puts:
        rebuild.put(*put)
    return rebuild.table()


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 9)), max_size=30))
def test_the_highest_seq_is_the_state_in_whatever_order(log: list[tuple[bytes, int]]) -> None:
    highest = {key: max(seq for at, seq in log if at == key) for key, _ in log}
    assert table((key, b"%d" % seq, seq) for key, seq in log) == {
        key: b"%d" % seq for key, seq in highest.items()
    }


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([(b"a", b"one", 1), (b"a", b"again", 1)], {b"a": b"again"}),
        ([(b"a", b"one", 1), (b"a", None, 1)], {}),
        ([(b"a", None, 2), (b"a", b"late", 1)], {}),
        ([(b"a", None, 2), (b"a", b"back", 3)], {b"a": b"back"}),
        ([(b"a", b"one", 7), (b"a", None, None)], {}),
        ([(b"a", b"one", 7), (b"a", None, None), (b"a", b"late", 6)], {}),
    ],
)
def test_a_forgotten_key_stays_forgotten(log: list[Put], expected: dict[bytes, bytes]) -> None:
    assert table(log) == expected


def test_a_late_record_stays_late_until_a_higher_one_follows() -> None:
    rebuild = Rebuild()
    rebuild.put(b"a", b"two", 2)
    rebuild.put(b"a", b"one", 1)
    assert rebuild.late() == [(b"a", 1)]
    rebuild.put(b"a", b"three", 3)
    assert rebuild.late() == []


def owner(end: int = 10) -> Strangers:
    strangers = Strangers()
    strangers.begin(0, end)
    return strangers


def test_a_hole_between_reports_is_a_stranger() -> None:
    strangers = owner()
    for offset in (10, 12):
        strangers.sent(0)
        strangers.reported(0, offset)
    assert strangers.found() == [Span(0, 11, 12)]
    assert strangers.found() == []


def test_an_end_behind_our_last_is_a_stranger_only_where_nothing_of_ours_is_on_its_way() -> None:
    strangers = owner()
    quiet = strangers.quiet()
    strangers.sent(0)
    strangers.ended(0, 11, quiet[0])  # ours, whose report is not here yet
    assert strangers.quiet() == {}
    strangers.reported(0, 10)
    strangers.ended(0, 13, quiet[0])  # asked for before we wrote
    assert strangers.found() == []
    strangers.ended(0, 13, strangers.quiet()[0])
    assert strangers.found() == [Span(0, 11, 13)]


def test_a_record_appended_by_an_earlier_try_is_read() -> None:
    strangers = owner()
    strangers.sent(0)
    strangers.reported(0, -1)
    strangers.ended(0, 11, strangers.quiet()[0])
    assert strangers.found() == [Span(0, 10, 11)]


def test_a_changelog_that_ends_before_our_last_was_cut() -> None:
    strangers = owner()
    with pytest.raises(Cut):
        strangers.ended(0, 3, strangers.quiet()[0])


def test_partitions_given_up_are_nobodys_business() -> None:
    strangers = owner()
    strangers.ended(0, 12, 0)
    strangers.keep(set())
    strangers.sent(0)
    strangers.reported(0, 20)
    assert strangers.found() == []
    assert strangers.quiet() == {}


def test_the_fence_counts_from_what_was_sent() -> None:
    fence = Fence(session_s=10)
    assert not fence.holds(0)
    fence.assigned(sent_s=100)
    assert fence.holds(108)
    assert not fence.holds(108.1)
    assert fence.broken(108.1)
    fence.beat(sent_s=103)
    assert fence.holds(111)


def test_a_heartbeat_between_assignments_opens_nothing() -> None:
    fence = Fence(session_s=10)
    fence.assigned(0)
    fence.revoked()
    fence.beat(1)
    assert not fence.holds(1)
    assert not fence.broken(60)  # waiting for the group is no silence


def test_a_member_the_group_forgot_never_acts_again() -> None:
    fence = Fence(session_s=10)
    fence.assigned(0)
    fence.lost()
    fence.beat(1)
    assert fence.broken(1)


def test_the_watchdog_sees_a_standstill_under_lag_alone() -> None:
    watchdog = Watchdog()
    assert watchdog.look(0, {0: Standing(5, 3), 1: Standing(7, 0)}) == 0
    assert watchdog.look(50, {0: Standing(5, 4), 1: Standing(7, 0)}) == 50
    assert watchdog.look(61, {0: Standing(5, 4), 1: Standing(7, 2)}) == 61
    assert watchdog.look(62, {0: Standing(6, 4), 1: Standing(7, 2)}) == 1
    assert watchdog.look(99, {1: Standing(7, 0)}) == 0
