"""Faust's Kafka driver as Milena runs it. Owns what stock Faust leaves open in its client settings.

Sends are idempotent with acks=all (stock sets idempotence only in exactly_once). The shell holds
everything else: it sends by itself, awaits every append, and acknowledges in
order, so Faust's producer buffer and its commit-time flush carry nothing of ours.
"""

from collections.abc import Mapping
from typing import Any

from faust.transport.drivers import aiokafka as stock


class Producer(stock.Producer):  # type: ignore[misc]
    """acks=all and idempotent."""

    def _settings_extra(self) -> Mapping[str, Any]:
        return {**super()._settings_extra(), "enable_idempotence": True, "acks": "all"}


class Transport(stock.Transport):  # type: ignore[misc]
    """`milena://host:port`."""

    Producer = Producer
    default_port = 9092
    driver_version = f"milena over {stock.Transport.driver_version}"
