"""Questions on the log and their answers: sent, sent again, waited for, routed by request id.

Owns the table of waiting requests of this edge and its partition of edge.replies. Never reads an
answer's meaning. An answer nobody waits for is dropped and counted.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec

from connectors.log import Appended, Record
from edge.errors import ApiError, ErrorCode
from edge.metrics import Metrics
from schemas.generated.types import EdgeReply, Limits, Queued, Refused, Repeated, Status
from topics import wire
from topics.errors import InvalidRecord, LogUnavailable
from topics.topic import Topic

Body = Refused | Queued | Repeated | Status | Limits


class Producer(Protocol):
    """What we use of connectors.log.LogProducer."""

    def send(
        self, topic: Topic, key: str, value: msgspec.Struct, partition: int | None = None
    ) -> "asyncio.Future[Appended]":
        """Hands one record over."""


class Answer(msgspec.Struct, frozen=True):
    """`append_ms`: broker time of the answer, the one clock that limits and resets go by."""

    body: Body
    append_ms: int


class Unanswered(Exception):
    """No answer within the wait. `appended`: the question is in the log and will be obeyed."""

    def __init__(self, appended: bool) -> None:
        super().__init__()
        self.appended = appended


class Replies:
    """Used from one event loop."""

    def __init__(
        self,
        producer: Producer,
        waiting_max: int,
        resend_ms: int,
        metrics: Metrics,
        now_s: Callable[[], float],
    ) -> None:
        self._now_s = now_s
        self._producer = producer
        self._waiting: dict[str, asyncio.Future[Answer]] = {}
        self._waiting_max = waiting_max
        self._resend_s = resend_ms / 1_000
        self._metrics = metrics

    def deliver(self, records: list[Record]) -> None:
        """Takes records of our partition; given to the log's reader."""
        for record in records:
            future = self._waiting.get(record.key)
            if future is None or future.done():
                self._metrics.late_replies.inc()
                continue
            try:
                reply = wire.decode(EdgeReply, record.value)
            except InvalidRecord:
                continue  # another writer's fault; our question is answered again or times out
            future.set_result(Answer(reply.body, record.append_ms))

    async def ask(
        self,
        topic: Topic,
        key: str,
        question: msgspec.Struct,
        request_id: str,
        wait_ms: int,
        kind: str,
    ) -> Answer:
        """Sends the question, once more after the resend time, and returns its answer.

        Raises:
            Unanswered: nothing came within `wait_ms`.
            ApiError: capacity_exhausted, too many requests wait already.
        """
        if len(self._waiting) >= self._waiting_max:
            raise ApiError(ErrorCode.CAPACITY_EXHAUSTED)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting[request_id] = future
        sends: list[asyncio.Future[Appended]] = []

        def send() -> None:
            sent = self._producer.send(topic, key, question)
            sent.add_done_callback(_noted)
            sends.append(sent)

        asked_s = self._now_s()
        again = loop.call_later(self._resend_s, send)
        try:
            send()
            async with asyncio.timeout(wait_ms / 1_000):
                answer = await future
        except TimeoutError:
            self._metrics.unanswered.labels(kind).inc()
            raise Unanswered(any(_appended(sent) for sent in sends)) from None
        finally:
            again.cancel()
            del self._waiting[request_id]
        self._metrics.reply_wait_s.labels(kind).observe(self._now_s() - asked_s)
        return answer


def _appended(sent: "asyncio.Future[Appended]") -> bool:
    return sent.done() and not sent.cancelled() and sent.exception() is None


def _noted(sent: "asyncio.Future[Appended]") -> None:
    """A failed send shows as a missing answer; its error must not go unseen by asyncio."""
    if not sent.cancelled():
        error = sent.exception()
        if error is not None and not isinstance(error, LogUnavailable):
            raise error
