"""Looks at the broker every few seconds from outside the stream. Owns what is asked and how often.

Four things that a stream cannot see of itself: that its inbox became another topic, that strangers wrote
its changelog, that its committed offset stands still, that a send is not answered. The judgements are those
of the pure parts. A look that the broker does not answer tells nothing and is made again; a broker that is
away for long is the fence's to judge.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Final

import structlog
from confluent_kafka import IsolationLevel, KafkaException, Message
from faust.types import TP

from processors.transport import changelog
from processors.transport.app import App
from processors.transport.offsets import Place
from processors.transport.producer import APPEND_S_MAX
from processors.transport.recovery import seq_in
from processors.transport.strangers import Cut, Span
from processors.transport.tenure import EXIT_FENCED, EXIT_REFUSED, EXIT_RESTART
from processors.transport.watchdog import STANDSTILL_S_MAX, Standing, Watchdog
from topics.runtime.clock import elapsed_s
from topics.topology import id_of

LOOK_S: Final = 5.0
FENCE_LOOK_S: Final = 0.25
READ_S_MAX: Final = 20.0
GONE: Final = "none"

_log = structlog.get_logger()


class Watch:
    """Beside one running app."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._admin = changelog.client(app.bootstrap)
        self._watchdog = Watchdog()

    async def fence_for_ever(self) -> None:
        """Ends a process that slept too long also where it has nothing to send."""
        while True:
            self._app.tenure.look()
            await asyncio.sleep(FENCE_LOOK_S)

    async def for_ever(self) -> None:
        """Looks while partitions are held."""
        while True:
            await self._app.tenure.gate.opened()
            try:
                await self._look()
            except (KafkaException, TimeoutError) as error:
                _log.warning("the broker did not answer a look", reason=type(error).__name__)
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> None:
        app, tenure = self._app, self._app.tenure
        assignment, quiet = tenure.offsets.assignment, tenure.strangers.quiet()
        held = [place for place in app.consumer.assignment() if place.topic == app.inbox.name]
        found = await asyncio.to_thread(self._topic_id)
        inbox = await asyncio.to_thread(self._ends, held, IsolationLevel.READ_COMMITTED)
        logs = [(app.changelog, one) for one in quiet]
        own = await asyncio.to_thread(self._ends, logs, IsolationLevel.READ_UNCOMMITTED)
        if assignment != tenure.offsets.assignment:
            return
        if found != tenure.topic_id:
            tenure.end(f"{app.inbox.name} is another topic now", EXIT_REFUSED)
        self._judge_standing(inbox)
        if app.producer.oldest_s(elapsed_s()) > APPEND_S_MAX:
            tenure.end("a send was not answered in time", EXIT_RESTART)
        try:
            for (_, partition), end in own.items():
                tenure.strangers.ended(partition, end, quiet[partition])
        except Cut as error:
            tenure.end(str(error), EXIT_REFUSED)
        for span in tenure.strangers.found():
            await self._answer(span)

    def _judge_standing(self, ends: dict[Place, int]) -> None:
        app, offsets = self._app, self._app.tenure.offsets
        standings = {}
        for place, end in ends.items():
            committed = offsets.committed_at(place) or 0
            read = app.consumer.position_of(TP(*place)) or 0
            # What is behind the last record and holds none (an aborted transaction) is no lag.
            done = not offsets.open_count(place) and read >= end
            standings[place[1]] = Standing(committed, 0 if done else max(0, end - committed))
        standstill_s = self._watchdog.look(elapsed_s(), standings)
        app.metrics.committed_age_seconds.set(standstill_s)
        app.metrics.lag.set(sum(standing.lag for standing in standings.values()))
        if standstill_s > STANDSTILL_S_MAX:
            app.tenure.end("the committed offset stands still under lag", EXIT_FENCED)

    async def _answer(self, span: Span) -> None:
        app, strange = self._app, list[tuple[bytes, int]]()

        def put(message: Message) -> None:
            key, seq = message.key(), seq_in(message)
            if key is not None:
                strange.append(
                    (key, seq or 0)
                )  # one that forgets a key and tells no seq is the oldest

        spans = {span.partition: (span.start, span.end)}
        deadline_s, stop = time.monotonic() + READ_S_MAX, threading.Event()
        await asyncio.to_thread(
            changelog.read, app.bootstrap, app.changelog, spans, put, deadline_s, stop
        )
        _log.warning("strangers wrote our changelog", partition=span.partition, keys=len(strange))
        app.metrics.strangers.inc(len(strange))
        async with app.tenure.gate:
            # Also after a rebalance, where the partition stayed or came back.
            if TP(app.inbox.name, span.partition) in app.consumer.assignment():
                await app.put_again(span.partition, strange)

    def _topic_id(self) -> str:
        return id_of(self._admin, self._app.inbox.name, changelog.ASK_S_MAX) or GONE

    def _ends(self, places: Sequence[Place], isolation: IsolationLevel) -> dict[Place, int]:
        return changelog.ends(self._admin, places, isolation)
