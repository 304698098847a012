"""The load against an edge that misbehaves: every request is pursued to its terminal, under one key, and
the history says so."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ops.drill.client import Person, ended, new_http
from ops.drill.evidence import Call, Seen
from ops.drill.history import Head, History, read
from ops.drill.load import Load, Shape
from ops.stack.beside import free_ports

S_MAX = 20.0


class WildEdge:
    """Serves one answer of four deltas for each key; refuses, breaks off and drops now and then."""

    def __init__(self) -> None:
        self.asks = itertools.count(1)
        self.keys: defaultdict[str, int] = defaultdict(int)
        self.generations: dict[str, str] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            writer.write(self._answer(lines[0], headers, body))
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def _answer(self, line: str, headers: dict[str, str], body: bytes) -> bytes:
        number = next(self.asks)
        if line.startswith("POST") and "cancel" in line:
            return _document(202, {"status": "stopping"})
        if line.startswith("GET"):
            return self._stream(line.split("/")[3], headers.get("last-event-id"), number)
        key = headers["idempotency-key"]
        if number % 7 == 3:
            return b""
        if number % 5 == 1:
            return _document(503, {"error": {"code": "capacity_exhausted"}})
        self.keys[key] += 1
        generation_id = self.generations.setdefault(key, f"gen_{len(self.generations)}")
        if not json.loads(body)["stream"]:
            return _document(200, {"id": generation_id}, generation_id)
        return self._stream(generation_id, None, number)

    def _stream(self, generation_id: str, after: str | None, number: int) -> bytes:
        names = ["text.delta"] * 4 + ["completed"]
        first = int(after.split("-")[1]) if after else 0
        cut = 3 if number % 3 == 0 else len(names)
        frames = [
            f"id: 1-{at}\nevent: generation.{name}\ndata: {{}}\n\n"
            for at, name in enumerate(names, 1)
            if first < at <= max(cut, first + 1)
        ]
        text = "".join(frames).encode()
        return _head(200, "text/event-stream", len(text) + (cut < len(names)), generation_id) + text


def _head(status: int, kind: str, length: int, generation_id: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status} x\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n"
        f"X-Generation-Id: {generation_id}\r\nConnection: close\r\n\r\n"
    ).encode()


def _document(status: int, told: object, generation_id: str = "") -> bytes:
    raw = json.dumps(told).encode()
    return _head(status, "application/json", len(raw), generation_id) + raw


@asynccontextmanager
async def served(edge: WildEdge) -> AsyncIterator[str]:
    (port,) = free_ports(1)
    server = await asyncio.start_server(edge.serve, "127.0.0.1", port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.close()


async def drilled(tmp_path: Path, seed: int) -> tuple[WildEdge, list[Seen], Load]:
    edge, shape = WildEdge(), Shape(steady=3, hasty=1)
    people = [Person(f"usr_{at}", f"mk_{at}") for at in range(4)]
    clock = itertools.count(1)
    path = tmp_path / "history.jsonl"
    async with served(edge) as url, new_http(20) as http:
        with History(path, Head(cell="x", seed=seed, began_ms=0), lambda: next(clock)) as history:
            load = Load(shape, people, [url], http, history, seed, lambda: next(clock))
            load.start()
            await load.until_ended(12, S_MAX)
            load.ask_to_stop()
            assert await load.drained(S_MAX) == 0
            assert history.running == 0
    return edge, read(path)[1], load


async def test_every_request_is_pursued_to_its_terminal(tmp_path: Path) -> None:
    edge, seen, load = await drilled(tmp_path, 5)
    asks = [one for one in seen if one.call is Call.ASK]
    over = {one.generation_id for one in seen if ended(one)}
    streamed = {one.generation_id for one in asks if one.shown}
    assert streamed <= over, "whoever began to read an answer read its end"
    assert set(load.generations) == {one.generation_id for one in asks if one.generation_id}
    assert any(one.status is None for one in asks), "some calls were dropped"
    assert any(one.status == 503 for one in asks)
    assert load.broken > 0
    repeated = {one.idempotency_key for one in asks if one.status != 200}
    answered = {one.idempotency_key for one in asks if one.status == 200}
    assert repeated <= answered, "a request without an answer is asked again under its key"
    assert any(count > 1 for count in edge.keys.values()), "some asked twice"


async def test_a_resume_goes_on_behind_the_last_event(tmp_path: Path) -> None:
    _, seen, _ = await drilled(tmp_path, 6)
    resumes = [one for one in seen if one.call is Call.RESUME and one.shown and one.after]
    assert resumes
    for one in resumes:
        assert one.after is not None
        first = int(one.shown[0].id.split("-")[1])
        assert first == int(one.after.split("-")[1]) + 1


async def test_people_who_give_up_leave_unknown_calls_and_no_task(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()

    (port,) = free_ports(1)
    server = await asyncio.start_server(silent, "127.0.0.1", port)
    path, shape = tmp_path / "h.jsonl", Shape(steady=2, hasty=0)
    people = [Person(f"usr_{at}", f"mk_{at}") for at in range(2)]
    async with new_http(10) as http:
        with History(path, Head(cell="x", seed=1, began_ms=0), lambda: 1) as history:
            edges = [f"http://127.0.0.1:{port}"]
            load = Load(shape, people, edges, http, history, 1, lambda: 1)
            load.start()
            await load.until_answering(2, S_MAX)
            await load.give_up()
            assert history.running == 0
            await load.give_up()
    server.close()
    _, seen = read(path)
    assert {one.status for one in seen} == {None}
