"""What must happen sometimes. A batch of seeds in which one of these never did proves nothing of it."""

from collections import Counter
from typing import Final

SOMETIMES: Final = (
    # processes
    "restarted accounts",
    "restarted runs",
    "restarted workers",
    "restarted metering",
    "restarted worker",
    "restarted closer",
    "restarted edge",
    "recovered state",
    # groups
    "rebalance",
    "session ended",
    "takeover",
    "static member came back",
    "fenced by a successor",
    "self-fence",
    # requests to the broker
    "reply lost",
    "reply late",
    "append refused",
    "killed between append and answer",
    "died of a failed send",
    # the shell
    "event met again",
    "answers said again",
    "zombie wrote",
    "stranger in the changelog",
    "forced commit",
    "dead letter",
    "state forgotten",
    # the domain
    "submit sent again",
    "no decision in time",
    "repeated key",
    "submit admitted",
    "submit refused",
    "submit repeated",
    "submit conflict",
    "key decided afresh",
    "claim sent again",
    "claim refused",
    "stop before grant",
    "stop while running",
    "stop after the end",
    "stop order heard",
    "ended by a deadline",
    "Ended said again",
    "lease expired",
    "worker lapsed",
    "step met again",
)
ENOUGH_SEEDS: Final = 100
"""A batch at least this large must have hit them all."""


def missing(hit: Counter[str], seeds: int) -> list[str]:
    """Marks that the batch should have hit and did not."""
    if seeds < ENOUGH_SEEDS:
        return []
    return [name for name in SOMETIMES if not hit[name]]
