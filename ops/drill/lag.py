"""How far each machine is behind its inbox: end offsets beside committed ones.

Owns one asking consumer for each machine's group; joins none, commits nothing.
"""

from __future__ import annotations

from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ops.log_scan import new_consumer
from ops.verify.source import GROUP_PREFIX
from topics.registry import MACHINE_INBOXES

ASK_S_MAX: Final = 2.0
MACHINES: Final = ("accounts", "runs", "workers", "metering")


class Lags:
    """A broker's. Blocking: ask from a thread."""

    def __init__(self, bootstrap: str, local: bool = True) -> None:
        self._local = local
        self._consumers: dict[str, Consumer] = {
            name: new_consumer(bootstrap, f"{GROUP_PREFIX}{name}") for name in MACHINES
        }

    def close(self) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def now(self) -> dict[str, int]:
        """Machine -> records not committed; a machine that the broker does not tell of is left out."""
        found: dict[str, int] = {}
        for name in MACHINES:
            places = self.places(name)
            if places is not None:
                found[name] = sum(end - done for done, end in places.values())
        return found

    def places(self, machine: str) -> dict[int, tuple[int, int]] | None:
        """Partition -> (committed, end), or None where the broker does not tell."""
        consumer, inbox = self._consumers[machine], MACHINE_INBOXES[machine]
        partitions = range(inbox.ring.partitions(self._local))
        try:
            places = [TopicPartition(inbox.name, one) for one in partitions]
            committed = consumer.committed(places, timeout=ASK_S_MAX)
            found = {}
            for at in committed:
                bounds = consumer.get_watermark_offsets(at, timeout=ASK_S_MAX, cached=False)
                if bounds is None or at.error is not None:
                    return None
                found[at.partition] = (max(at.offset, bounds[0]), bounds[1])
        except KafkaException:
            return None
        return found
