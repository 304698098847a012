"""One caller of the edges, as a program would write it; every call goes into the history.

Owns HTTP and the parsing of streams. A call never raises for what the other side did: no answer is an
outcome. Never retries by itself.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

import httpx2
import msgspec

from connectors.sse.parser import Event, Parser, TooLarge
from ops.drill.evidence import TERMINALS, Call, Seen, Shown
from ops.drill.history import History

READ_S_MAX: Final = 20.0
"""Without a byte a stream is given up: keep-alives come every 15 s."""
CONNECT_S_MAX: Final = 3.0
_PREFIX: Final = "generation."


class Person(msgspec.Struct, frozen=True):
    """Somebody with one key."""

    user_id: str
    key: str


class Patience(msgspec.Struct):
    """How long a reader stays: `events_left` text events, or for good."""

    events_left: int | None = None


def new_http(calls_at_once: int) -> httpx2.AsyncClient:
    """One client for all callers of a cell."""
    limits = httpx2.Limits(max_connections=calls_at_once, max_keepalive_connections=0)
    timeout = httpx2.Timeout(READ_S_MAX, connect=CONNECT_S_MAX)
    return httpx2.AsyncClient(limits=limits, timeout=timeout)


def body_of(words: int, tokens_per_s: float, *, stream: bool, mark: str = "") -> dict[str, Any]:
    """A request to the scripted engine; `mark` makes another body of the same answer."""
    script = {"words": words, "tokens_per_s": tokens_per_s, "prefill_ms": 50}
    content = json.dumps({"script": script})
    turns = [{"role": "user", "content": f"about {mark}"}] if mark else []
    messages = [*turns, {"role": "user", "content": content}]
    return {"model": "scripted", "messages": messages, "stream": stream}


class Client:
    """One person at one page."""

    def __init__(
        self,
        name: str,
        person: Person,
        http: httpx2.AsyncClient,
        history: History,
        now_ms: Callable[[], int],
    ) -> None:
        self.name = name
        self.person = person
        self._http = http
        self._history = history
        self._now_ms = now_ms
        self._places: dict[str, str] = {}

    def place(self, generation_id: str) -> str | None:
        """Where this page goes on, as EventSource would: the last id it was told, None where there is none
        or where it was told to forget."""
        return self._places.get(generation_id) or None

    def beside(self) -> Client:
        """The same person at another page."""
        return Client(f"{self.name}b", self.person, self._http, self._history, self._now_ms)

    async def ask(
        self, edge: str, key: str, body: dict[str, Any], patience: Patience | None = None
    ) -> Seen:
        """One POST and its stream or document, to its end."""
        begun = self._begun(Call.ASK)
        begun = msgspec.structs.replace(begun, idempotency_key=key, body=digest(body))
        headers = {"Idempotency-Key": key, "Prefer": "reattach"}
        return await self._stream("POST", f"{edge}/v1/generations", begun, headers, body, patience)

    async def resume(
        self, edge: str, generation_id: str, after: str | None, patience: Patience | None = None
    ) -> Seen:
        """The stream again, from its start or after an event."""
        begun = self._begun(Call.RESUME, generation_id)
        begun = msgspec.structs.replace(begun, after=after)
        headers = {} if after is None else {"Last-Event-ID": after}
        path = f"{edge}/v1/generations/{generation_id}/stream"
        return await self._stream("GET", path, begun, headers, None, patience)

    async def cancel(self, edge: str, generation_id: str) -> Seen:
        path = f"{edge}/v1/generations/{generation_id}/cancel"
        return await self._short("POST", path, self._begun(Call.CANCEL, generation_id))

    async def status(self, edge: str, generation_id: str) -> tuple[Seen, dict[str, Any]]:
        """What `GET` tells, beside the call."""
        told: dict[str, Any] = {}
        path = f"{edge}/v1/generations/{generation_id}"
        seen = await self._short("GET", path, self._begun(Call.STATUS, generation_id), told)
        return seen, told

    def _begun(self, call: Call, generation_id: str = "") -> Seen:
        at_ms = self._now_ms()
        return Seen(
            client=self.name,
            user_id=self.person.user_id,
            call=call,
            began_ms=at_ms,
            ended_ms=at_ms,
            status=None,
            generation_id=generation_id,
        )

    async def _short(
        self, method: str, url: str, begun: Seen, told: dict[str, Any] | None = None
    ) -> Seen:
        number = self._history.begin(begun)
        status, code = None, ""
        with self._outcome_unknown():
            response = await self._http.request(method, url, headers=self._auth())
            status, code = response.status_code, _code(response.content)
            if told is not None and status == 200:
                told.update(response.json())
        return self._history.end(number, status=status, code=code)

    async def _stream(
        self,
        method: str,
        url: str,
        begun: Seen,
        headers: Mapping[str, str],
        body: dict[str, Any] | None,
        patience: Patience | None,
    ) -> Seen:
        number = self._history.begin(begun)
        known: dict[str, Any] = {}
        shown: list[Shown] = []
        parser = _OwnIds(begun.after or "")
        sent = {**self._auth(), **headers}
        try:
            with self._outcome_unknown():
                async with self._http.stream(method, url, json=body, headers=sent) as response:
                    known["status"] = response.status_code
                    generation_id = response.headers.get("x-generation-id", "")
                    known["generation_id"] = generation_id or begun.generation_id
                    kind = response.headers.get("content-type", "")
                    if kind.startswith("text/event-stream"):
                        await _read(response.aiter_raw(), shown, patience or Patience(), parser)
                    else:
                        known["code"] = _code(await response.aread())
        finally:
            seen = self._history.end(number, shown=tuple(shown), **known)
            self._places[seen.generation_id] = parser.last_event_id
        return seen

    @contextlib.contextmanager
    def _outcome_unknown(self) -> Iterator[None]:
        try:
            yield
        except (httpx2.HTTPError, TooLarge):
            self._history.broken += 1

    def _auth(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.person.key}"}


def ended(seen: Seen) -> bool:
    """Its stream came to a terminal."""
    return bool(seen.shown) and seen.shown[-1].name in TERMINALS


def digest(body: dict[str, Any]) -> str:
    """Same for the same request, streamed or not: that is no part of what a key is bound to."""
    asked = {name: value for name, value in body.items() if name != "stream"}
    raw = msgspec.json.encode(asked, order="deterministic")
    return blake2b(raw, digest_size=8).hexdigest()


class _OwnIds(Parser):
    """Knows as well which events came with an id of their own: others repeat the last one."""

    def __init__(self, last_event_id: str) -> None:
        super().__init__(last_event_id)
        self.owned: list[bool] = []
        self._owns = False

    def _field(self, name: str, value: str) -> None:
        self._owns = self._owns or name == "id"
        super()._field(name, value)

    def _dispatch(self, events: list[Event]) -> None:
        count = len(events)
        super()._dispatch(events)
        self.owned += [self._owns] * (len(events) - count)
        self._owns = False


async def _read(
    chunks: AsyncIterator[bytes], shown: list[Shown], patience: Patience, parser: _OwnIds
) -> None:
    async for chunk in chunks:
        for event in parser.feed(chunk):
            name = event.event.removeprefix(_PREFIX)
            own = event.id if parser.owned[len(shown)] else ""
            shown.append(Shown(own, name, event.data.encode("utf-8")))
            if name == "text.delta" and patience.events_left is not None:
                patience.events_left -= 1
        if patience.events_left is not None and patience.events_left <= 0:
            return


def _code(raw: bytes) -> str:
    try:
        told = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return ""
    error = told.get("error") if isinstance(told, dict) else None
    return str(error.get("code", "")) if isinstance(error, dict) else ""
