"""Settings from the environment: types, defaults, and a refusal that names the variable."""

import re

import msgspec
import pytest

from topics.errors import SettingsError
from topics.runtime.settings import GLOBALS, SECTIONS, KafkaSettings, check_names, read


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A section with every kind of value, and a bound."""

    name: str = "x"
    count: int = 1
    share: float = 0.5
    on: bool = False
    maybe: int | None = None

    def __post_init__(self) -> None:
        if self.count < 0:
            raise ValueError("count must not be negative")


def test_defaults_hold_where_nothing_is_set() -> None:
    assert read(KafkaSettings, "KAFKA", {}) == KafkaSettings()


def test_values_become_what_the_field_is() -> None:
    env = {
        "MILENA_TEST_NAME": "7",
        "MILENA_TEST_COUNT": "42",
        "MILENA_TEST_SHARE": "0.25",
        "MILENA_TEST_ON": "true",
        "MILENA_TEST_MAYBE": "3",
        "PATH": "/bin",
    }
    assert read(Sample, "TEST", env) == Sample(name="7", count=42, share=0.25, on=True, maybe=3)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MILENA_TEST_COUNT", "many"),
        ("MILENA_TEST_COUNT", "-1"),
        ("MILENA_TEST_ON", "perhaps"),
        ("MILENA_TEST_COUNTS", "1"),
        ("MILENA_TSET_COUNT", "1"),
    ],
)
def test_a_bad_value_or_name_refuses_and_is_named(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(Sample, "TEST", {variable: value})
    section = variable.rsplit("_", 1)[0]
    assert re.search(f"{section}_", str(refused.value)), str(refused.value)


def test_a_foreign_section_is_left_to_its_owner() -> None:
    assert read(Sample, "TEST", {"MILENA_EDGE_ANYTHING": "1"}) == Sample()


def test_names_without_a_section_are_few_and_known() -> None:
    check_names(dict.fromkeys(GLOBALS, "1"))
    check_names({f"MILENA_{section}_X": "1" for section in SECTIONS})
    for name in ("MILENA_", "MILENA_DATUM", "MILENA_PORT", "MILENA_kafka_LOCAL"):
        with pytest.raises(SettingsError, match=name):
            check_names({name: "1"})
