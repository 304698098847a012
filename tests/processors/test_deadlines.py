"""The heap of deadlines: what passed is told in order, told again while it stands, and stays bounded."""

from processors.deadlines import REPEAT_MS, REPLACED_MAX, Deadlines


def test_passed_keys_come_in_order_and_again_until_they_move() -> None:
    deadlines = Deadlines()
    deadlines.set("late", 2_000)
    deadlines.set("early", 1_000)
    assert deadlines.passed(999, 10) == []
    assert deadlines.passed(2_000, 10) == [("early", 1_000), ("late", 2_000)]
    assert deadlines.passed(2_000, 10) == []
    deadlines.set("early", 9_000)
    assert deadlines.passed(2_000 + REPEAT_MS, 10) == [("late", 2_000)]
    deadlines.set("late", None)
    assert deadlines.passed(8_999, 10) == []
    assert deadlines.passed(9_000, 10) == [("early", 9_000)]


def test_at_most_so_many_are_told_at_once() -> None:
    deadlines = Deadlines()
    for number in range(5):
        deadlines.set(f"key-{number}", number)
    assert len(deadlines.passed(10, 3)) == 3
    assert len(deadlines.passed(10, 3)) == 2


def test_a_deadline_that_moves_for_ever_keeps_the_heap_small() -> None:
    deadlines = Deadlines()
    for moved_ms in range(3 * REPLACED_MAX):
        deadlines.set("key", 1_000_000 + moved_ms)
    assert len(deadlines._heap) <= REPLACED_MAX + 3
    assert deadlines.passed(2_000_000, 10) == [("key", 1_000_000 + 3 * REPLACED_MAX - 1)]
