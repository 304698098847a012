"""Every number the edge tells about itself. Labels are routes and codes, never a user or an id."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_WAIT_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_TEXT_S: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0)


class Metrics:
    """One set of metrics in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "milena_edge_requests", "Requests answered.", ["route", "code"], registry=registry
        )
        self.open_requests = Gauge(
            "milena_edge_open_requests", "Requests and streams open now.", registry=registry
        )
        self.streams = Gauge(
            "milena_edge_streams_open", "Readers of generations now.", registry=registry
        )
        self.feeds = Gauge(
            "milena_edge_generations_watched", "Generations with a reader now.", registry=registry
        )
        self.cut = Counter(
            "milena_edge_readers_cut", "Streams ended by the edge.", ["reason"], registry=registry
        )
        self.log_reads = Counter(
            "milena_edge_log_reads", "Reads of a stream's log.", ["why"], registry=registry
        )
        self.store_ends = Counter(
            "milena_edge_store_ends", "Streams whose end came from the store.", registry=registry
        )
        self.buffered_bytes = Gauge(
            "milena_edge_buffered_bytes",
            "Text kept for readers that are behind.",
            registry=registry,
        )
        self.reply_wait_s = Histogram(
            "milena_edge_reply_wait_seconds",
            "From a question on the log to its answer.",
            ["kind"],
            buckets=_WAIT_S,
            registry=registry,
        )
        self.unanswered = Counter(
            "milena_edge_unanswered",
            "Questions without an answer in time.",
            ["kind"],
            registry=registry,
        )
        self.late_replies = Counter(
            "milena_edge_late_replies", "Answers nobody waits for any more.", registry=registry
        )
        self.first_text_s = Histogram(
            "milena_edge_first_text_seconds",
            "From the request to its first text on the way to the client.",
            buckets=_TEXT_S,
            registry=registry,
        )
        self.push_connected = Gauge(
            "milena_edge_push_connected", "1 while news of generations arrive.", registry=registry
        )
        self.faults = Counter(
            "milena_edge_faults", "Unexpected faults, answered with 500.", registry=registry
        )
