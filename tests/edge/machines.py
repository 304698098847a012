"""The rest of the log, by script: a test says what each question is answered with.

This is no machine: it decides nothing, and remembers only what it was sent.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Final

import msgspec

from connectors.log import Appended, Record
from schemas.generated.types import (
    AccountsInbox,
    EdgeReply,
    Hold,
    Limit,
    LimitKind,
    Limits,
    Phase,
    Query,
    Queued,
    Refused,
    Repeated,
    RunsInbox,
    Status,
    Stop,
    Submit,
)
from topics import wire
from topics.topic import Topic

NOW_MS: Final = 1_793_900_000_000
RESET_MS: Final = NOW_MS + 600_000
MESSAGES: Final = Limit(
    name="messages",
    kind=LimitKind.FIXED_WINDOW,
    limit=40,
    used=3,
    held=1,
    remaining=36,
    window_s=10_800,
    reset_at_ms=RESET_MS,
)
SLOTS: Final = Limit(name="slots", kind=LimitKind.SLOTS, limit=2, used=1, held=0, remaining=1)

Answer = Refused | Queued | Repeated | Status | Limits
Script = Callable[[Topic, str, Any], Answer | None]


class Machines:
    """Takes what the edge sends and answers as the test's script says. `None`: no answer."""

    def __init__(self) -> None:
        self.sent: list[tuple[Topic, str, Any]] = []
        self.script: Script = lambda topic, key, value: default_answer(value)
        self.deliver: Callable[[list[Record]], None] = lambda records: None
        self.acknowledges = True
        self._numbers = itertools.count()

    def send(
        self, topic: Topic, key: str, value: msgspec.Struct, partition: int | None = None
    ) -> "asyncio.Future[Appended]":
        loop = asyncio.get_running_loop()
        self.sent.append((topic, key, value))
        future: asyncio.Future[Appended] = loop.create_future()
        if self.acknowledges:
            future.set_result(Appended(0, next(self._numbers), NOW_MS))
        answer = self.script(topic, key, value)
        if answer is not None:
            self.reply(value.body.request_id, answer)  # type: ignore[attr-defined]
        return future

    def reply(self, request_id: str, answer: Answer) -> None:
        raw = wire.encode(EdgeReply(event_id="e", request_id=request_id, body=answer))
        record = Record("replies", 0, next(self._numbers), NOW_MS, request_id, raw)
        asyncio.get_running_loop().call_soon(self.deliver, [record])

    def always(self, answer: Answer | None) -> None:
        """Every question is answered so from now on."""
        self.script = lambda topic, key, value: answer

    def submits(self) -> list[Submit]:
        return [
            value.body
            for _, _, value in self.sent
            if isinstance(value, AccountsInbox) and isinstance(value.body, Submit)
        ]

    def bodies(self) -> list[Any]:
        return [value.body for _, _, value in self.sent]


def queued(submit: Submit) -> Queued:
    return Queued(
        generation_id=submit.spec.generation_id,
        admitted_at_ms=NOW_MS,
        model=submit.spec.model,
        model_version=submit.spec.model_version,
        queue_deadline_at_ms=NOW_MS + 15_000,
        limits=(MESSAGES, SLOTS),
    )


def status(generation_id: str, phase: Phase, **more: Any) -> Status:
    fields: dict[str, Any] = {
        "generation_id": generation_id,
        "known": True,
        "phase": phase,
        "stop_requested": False,
        "hold": Hold.CONSUMED,
        "model": "scripted",
        "epoch": 1,
        "created_at_ms": NOW_MS,
    }
    return Status(**(fields | more))


def unknown(generation_id: str) -> Status:
    return Status(
        generation_id=generation_id,
        known=False,
        stop_requested=False,
        model="",
        epoch=0,
        created_at_ms=0,
    )


def default_answer(value: Any) -> Answer | None:
    match value.body:
        case Submit():
            return queued(value.body)
        case Query() if isinstance(value, RunsInbox):
            return status(value.body.generation_id or "", Phase.RUNNING)
        case Query():
            return Limits(limits=(MESSAGES, SLOTS))
        case Stop():
            return status(value.body.generation_id, Phase.STOPPING, stop_requested=True)
    return None
