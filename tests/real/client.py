"""A client of the edge as a program would write it: httpx2 and the event-stream parser, nothing else.

Keeps the raw bytes beside the parsed events, so that tests can look at both.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
import msgspec

from connectors.sse.parser import Event, Parser

CALL_S_MAX: Final = 60.0
TERMINALS: Final = frozenset({"completed", "cancelled", "stopped", "error"})


class Answer(msgspec.Struct):
    """One streamed answer: status, headers, raw bytes, events in order."""

    status: int
    headers: Mapping[str, str]
    raw: bytes = b""
    events: list[Event] = []

    @property
    def generation_id(self) -> str:
        return self.headers["x-generation-id"]

    @property
    def names(self) -> list[str]:
        return [event.event.removeprefix("generation.") for event in self.events]

    @property
    def terminal(self) -> Event:
        """The only terminal, which must be the last event."""
        found = [
            event for event in self.events if event.event.removeprefix("generation.") in TERMINALS
        ]
        assert len(found) == 1, f"one terminal, not {self.names}"
        assert found[0] is self.events[-1], "nothing after the terminal"
        return found[0]

    @property
    def text(self) -> str:
        """What a client shows at the end: deltas by offset, snapshots replacing, resets dropping."""
        shown = ""
        for event in self.events:
            data = json.loads(event.data)
            match event.event.removeprefix("generation."):
                case "text.delta":
                    assert data["offset"] == len(shown), "offsets count code points without a hole"
                    shown += data["delta"]
                case "snapshot":
                    shown = data["text"]
                case "reset":
                    shown = shown[: data["offset"]]
                case "retract":
                    shown = ""
        return shown

    def data(self, index: int = -1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.events[index].data)
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The typed error of a refused request."""
        found: dict[str, Any] = json.loads(self.raw)["error"]
        return found


class Client:
    """One caller of one edge."""

    def __init__(self, url: str, key: str) -> None:
        self.http = httpx2.AsyncClient(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=CALL_S_MAX
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def ask(self, content: str, **more: Any) -> Answer:
        """Streams one generation to its end, or returns the refusal."""
        async with self.streaming(content, **more) as (answer, events):
            async for _ in events:
                pass
        return answer

    @asynccontextmanager
    async def streaming(
        self,
        content: str,
        *,
        idempotency_key: str = "",
        headers: Mapping[str, str] = {},
        **more: Any,
    ) -> AsyncIterator[tuple[Answer, AsyncIterator[Event]]]:
        """The answer while it is written; leaving early closes the connection."""
        sent = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex, **headers}
        request = self.http.stream(
            "POST", "/v1/generations", json=body_of(content, **more), headers=sent
        )
        async with request as response:
            answer = Answer(response.status_code, dict(response.headers))
            yield answer, _events(response, answer)

    async def resume(self, generation_id: str, last_event_id: str | None = None) -> Answer:
        """Reads a stream from its start, or after an id, to its end."""
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        path = f"/v1/generations/{generation_id}/stream"
        async with self.http.stream("GET", path, headers=headers) as response:
            answer = Answer(response.status_code, dict(response.headers))
            async for _ in _events(response, answer):
                pass
        return answer

    async def once(self, content: str, **more: Any) -> httpx2.Response:
        """One generation as one JSON document."""
        idempotency_key = more.pop("idempotency_key", uuid.uuid4().hex)
        return await self.http.post(
            "/v1/generations",
            json=body_of(content, **{"stream": False, **more}),
            headers={"Idempotency-Key": idempotency_key},
        )

    async def status(self, generation_id: str) -> dict[str, Any]:
        response = await self.http.get(f"/v1/generations/{generation_id}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found

    async def cancel(self, generation_id: str) -> httpx2.Response:
        return await self.http.post(f"/v1/generations/{generation_id}/cancel")

    async def limits(self) -> dict[str, dict[str, Any]]:
        """The caller's limits by name."""
        response = await self.http.get("/v1/limits")
        assert response.status_code == 200, response.text
        return {limit["name"]: limit for limit in response.json()["limits"]}


async def drain(events: AsyncIterator[Event]) -> None:
    """Reads to the end; what came is in the answer."""
    async for _ in events:
        pass


def body_of(content: str, **more: Any) -> dict[str, Any]:
    """A request body; `model` is scripted unless told otherwise."""
    return {
        "model": "scripted",
        "messages": [{"role": "user", "content": content}],
        "stream": True,
        **more,
    }


def script(**words: Any) -> str:
    """The user message that tells the scripted engine what to give."""
    return json.dumps({"script": {"tokens_per_s": 200, "prefill_ms": 0, **words}})


async def _events(response: httpx2.Response, answer: Answer) -> AsyncIterator[Event]:
    parser = Parser()
    async for chunk in response.aiter_raw():
        answer.raw += chunk
        if answer.status == 200:
            for event in parser.feed(chunk):
                answer.events.append(event)
                yield event
