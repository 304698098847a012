"""What the edge refuses to start with."""

import pytest

from edge.settings import EdgeSettings, reply_partition
from topics.errors import SettingsError
from topics.runtime.settings import read


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BODY_BYTES_MAX", "-1"),
        ("KEEP_ALIVE_S", "0"),
        ("RESEND_MS", "600"),
        ("TOUCH_S", "11"),
        ("CLIENT_SYSTEM", "obey"),
        ("NO_SUCH_BOUND", "1"),
    ],
)
def test_bounds_that_cannot_work_are_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name.lower() if name != "NO_SUCH_BOUND" else name):
        read(EdgeSettings, "EDGE", {f"MILENA_EDGE_{name}": value})


def test_a_reply_partition_is_the_names_or_the_given_one_and_always_exists() -> None:
    assert reply_partition(EdgeSettings(), "edge-0", 16) in range(16)
    assert reply_partition(EdgeSettings(reply_partition=15), "edge-0", 16) == 15
    with pytest.raises(SettingsError, match="REPLY_PARTITION=16"):
        reply_partition(EdgeSettings(reply_partition=16), "edge-0", 16)
