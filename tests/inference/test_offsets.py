"""The low-water mark never passes an unanswered request."""

from hypothesis import given
from hypothesis import strategies as st

from inference.offsets import LowWater

STEPS = st.lists(st.tuples(st.booleans(), st.integers(min_value=0, max_value=30)), max_size=60)


@given(STEPS)
def test_never_past_an_unanswered_one(steps: list[tuple[bool, int]]) -> None:
    water = LowWater()
    read: list[int] = []
    answered: set[int] = set()
    marks: list[int] = []
    at = 0
    for reads, number in steps:
        if reads:
            at += 1 + number % 3  # offsets may have holes
            assert water.read(at)
            read.append(at)
        elif read:
            offset = read[number % len(read)]
            water.answered(offset)
            answered.add(offset)
        mark = water.commit()
        if mark is not None:
            marks.append(mark)
            assert all(offset in answered for offset in read if offset < mark)
    assert marks == sorted(set(marks)), "a commit goes forward, and only where something moved"


@given(STEPS)
def test_everything_answered_commits_everything(steps: list[tuple[bool, int]]) -> None:
    water = LowWater()
    offsets = sorted({number for _, number in steps})
    for offset in offsets:
        water.read(offset)
    for offset in reversed(offsets):
        water.answered(offset)
    assert water.mark() == (offsets[-1] + 1 if offsets else None)
    assert water.unanswered == 0


def test_what_was_read_before_is_not_read_again() -> None:
    water = LowWater()
    assert water.read(5)
    assert not water.read(5)
    assert not water.read(3)
    water.answered(5)
    assert water.commit() == 6
    assert water.commit() is None
