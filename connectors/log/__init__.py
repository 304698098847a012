"""The log's clients for asyncio: confluent-kafka on its own threads, results on the loop."""

from connectors.log.producer import Appended, LogProducer
from connectors.log.reader import LogReader, Record

__all__ = ["Appended", "LogProducer", "LogReader", "Record"]
