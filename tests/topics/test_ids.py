"""Derived ids and keyed hashes: the same from the same, different from anything else."""

from hypothesis import given
from hypothesis import strategies as st

from topics.ids import keyed_hash, output_id

parts = st.lists(st.text(max_size=8) | st.binary(max_size=8), max_size=4)


def test_an_output_has_one_id_however_often_it_is_made() -> None:
    assert output_id("e", "Start", 0) == output_id("e", "Start", 0)
    made = {output_id(e, k, i) for e in ("e", "f") for k in ("Start", "Queued") for i in (0, 1)}
    assert len(made) == 8


@given(parts, parts)
def test_parts_cannot_run_into_each_other(one: list[str | bytes], two: list[str | bytes]) -> None:
    def raw(items: list[str | bytes]) -> list[bytes]:
        return [item.encode() if isinstance(item, str) else item for item in items]

    same = raw(one) == raw(two)
    assert (keyed_hash(b"secret", *one) == keyed_hash(b"secret", *two)) == same


def test_a_guess_needs_the_secret() -> None:
    assert keyed_hash(b"one", "prompt") != keyed_hash(b"two", "prompt")
    assert len(keyed_hash(b"one", "prompt")) == 16
