"""Faust's Kafka driver as Milena runs it, `milena://host:port`. Owns only which parts are ours.

Written against faust-streaming 0.15.3, whose ways of losing records each part names; the app must be a
`processors.transport.app.App`, which carries what the parts share.
"""

from faust.transport.drivers import aiokafka as stock

from processors.transport.consumer import Consumer
from processors.transport.producer import Producer


class Transport(stock.Transport):  # type: ignore[misc]
    """`milena://host:port`."""

    Consumer = Consumer
    Producer = Producer
    default_port = 9092
    driver_version = f"milena over {stock.Transport.driver_version}"
