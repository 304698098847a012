"""Asks an edge and reads the answer's events until the end, over as many connections as it takes.

Owns the HTTP side: one POST under one idempotency key, then resumes with Last-Event-ID. Never asks
twice for one question: a POST whose fate is unknown is repeated under its key.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import TracebackType
from typing import Any, Final, Self

import httpx2 as httpx
import msgspec

from connectors.sse import Event, Parser, TooLarge
from ops.cli.ask_answer import PREFIX, STATUS_OF_TERMINAL

CONNECT_S_MAX: Final = 5.0
# An edge sends a comment every 15 s; three missed ones are a dead connection.
SILENCE_S_MAX: Final = 45.0
WAITS_S: Final = (0.1, 0.3, 1.0, 2.0, 4.0, 8.0, 8.0)


class Refused(Exception):
    """The edge answered with an error of its catalogue."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.status = status
        self.code = code


class Away(Exception):
    """Nothing answers at the edge's address."""


class Lost(Exception):
    """The stream broke and could not be picked up again."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked. `idempotency_key` makes a repeated POST harmless."""

    prompt: str
    model: str
    idempotency_key: str
    max_output_tokens: int | None = None

    def body(self) -> dict[str, Any]:
        message = {"role": "user", "content": self.prompt}
        body = {"model": self.model, "messages": [message], "stream": True}
        if self.max_output_tokens is not None:
            body["max_output_tokens"] = self.max_output_tokens
        return body


class AnswerStream:
    """One question's events. `events` may be abandoned and called again: it goes on."""

    def __init__(
        self,
        base_url: str,
        key: str,
        question: Question,
        transport: httpx.BaseTransport | None = None,
        wait: Callable[[float], None] = time.sleep,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`waiting` is entered around whatever only waits: to be interrupted there loses nothing."""
        self._question = question
        self._wait = wait
        self._waiting = waiting
        self._http = httpx.Client(
            base_url=base_url,
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(SILENCE_S_MAX, connect=CONNECT_S_MAX),
            transport=transport,
        )
        self._reached = False
        self._last_id = ""
        self.generation_id = ""
        self.ended = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.close()

    def events(self) -> Generator[tuple[str, Mapping[str, Any]], None, None]:
        """Name and data of each event up to the terminal.

        Raises:
            Refused: the edge said no.
            Away: no edge was ever reached.
            Lost: the stream broke more often in a row than `WAITS_S` allows.
        """
        failures = 0
        while not self.ended:
            try:
                for event in self._connection():
                    failures = 0
                    yield event.event, self._seen(event)
            except httpx.ConnectError as error:
                if not self._reached:
                    raise Away(str(self._http.base_url)) from error
            except (httpx.TransportError, TooLarge, json.JSONDecodeError):
                self._reached = True  # whatever broke, the server has the rest
            if not self.ended:
                if failures == len(WAITS_S):
                    raise Lost(self.generation_id)
                with self._waiting():
                    self._wait(WAITS_S[failures])
                failures += 1

    def restart(self) -> None:
        """The next `events` reads the stream from its start."""
        self._last_id = ""

    def cancel(self) -> None:
        """Tells the server to stop. A generation that ended meanwhile stays as it ended.

        Raises:
            Refused: the edge said no.
            Lost: the edge does not answer.
        """
        try:
            answer = self._http.post(f"/v1/generations/{self.generation_id}/cancel")
        except httpx.TransportError as error:
            raise Lost(self.generation_id) from error
        _raise_refusal(answer)

    def _connection(self) -> Iterator[Event]:
        with ExitStack() as opened:
            with self._waiting():
                response = opened.enter_context(self._open())
            self._reached = True
            if not response.is_success:
                response.read()
                if response.status_code >= 500 and self.generation_id:
                    return  # a resume comes again; the first answer to the question is final
                _raise_refusal(response)
            self.generation_id = response.headers.get("X-Generation-Id", self.generation_id)
            parser = Parser(self._last_id)
            chunks = response.iter_raw()
            while not self.ended:
                with self._waiting():
                    chunk = next(chunks, None)
                if chunk is None:
                    return
                yield from parser.feed(chunk)

    def _open(self) -> AbstractContextManager[httpx.Response]:
        if self.generation_id:
            headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
            path = f"/v1/generations/{self.generation_id}/stream"
            return self._http.stream("GET", path, headers=headers)
        headers = {"Idempotency-Key": self._question.idempotency_key, "Prefer": "reattach"}
        body = self._question.body()
        return self._http.stream("POST", "/v1/generations", json=body, headers=headers)

    def _seen(self, event: Event) -> Mapping[str, Any]:
        data: dict[str, Any] = json.loads(event.data)
        self._last_id = event.id
        self.generation_id = data.get("generation_id", self.generation_id)
        self.ended = event.event.removeprefix(PREFIX) in STATUS_OF_TERMINAL
        return data


def _raise_refusal(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "internal", f"status {response.status_code} without an error document"
    raise Refused(response.status_code, code, message)
