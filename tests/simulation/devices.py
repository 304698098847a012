"""People's devices: they ask, read to the end, come back with their last id, stop, leave and walk away.

Owns the workload over HTTP and what a good client does about errors. What it saw goes to the `History`.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import msgspec

from connectors.sse import Parser
from tests.simulation.edge import Doors, User, bearer
from tests.simulation.exchange import Broken, Exchange, Head
from tests.simulation.history import History, Reading
from tests.simulation.loop import PROCESS, SimulationLoop
from tests.simulation.trace import Trace

SILENCE_S_MAX: Final = 20.0
"""An edge says something every 15 s; a client takes a longer silence for a break."""
TRIES_MAX: Final = 5
KEYS: Final = 12


class NeverBegan(Exception):
    """What was said to be in progress was refused after all; its key is decided afresh."""


class Answered(msgspec.Struct, frozen=True):
    """A response that is no stream."""

    status: int
    code: str
    body: dict[str, Any]
    generation_id: str | None


class Wish(msgspec.Struct, frozen=True):
    """What somebody asks, under which key."""

    user: User
    key: str
    content: str
    said: str
    stream: bool

    @property
    def body(self) -> bytes:
        message = {"role": "user", "content": self.content}
        return msgspec.json.encode(
            {"model": "scripted", "messages": [message], "stream": self.stream}
        )


class Device:
    """One device in one life; everything it does runs in its process."""

    def __init__(
        self,
        loop: SimulationLoop,
        trace: Trace,
        rng: Random,
        doors: Doors,
        history: History,
        users: Sequence[User],
    ) -> None:
        self._loop = loop
        self._trace = trace
        self._rng = rng
        self._doors = doors
        self._history = history
        self._users = users
        self._process = PROCESS.get(loop.world)

    async def ask_forever(self, pause_s: float, until_s: float) -> None:
        """New requests until the workload is over."""
        while not self._doors.names():  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.05)
        while self._loop.time() < until_s:
            await asyncio.sleep(self._rng.expovariate(1 / pause_s))
            self._loop.create_task(self._guarded(self._wish()))

    async def _guarded(self, wish: Wish) -> None:
        """What a client finds broken ends the run."""
        try:
            await self._ask(wish)
        except AssertionError as error:
            self._loop.fail(error)

    def _wish(self) -> Wish:
        rng = self._rng
        user, number = rng.choice(self._users), rng.randrange(KEYS)
        # One key, one question: but for a client that is wrong about it now and then.
        drawn = Random(f"{user.name}/{number}")
        if rng.random() < 0.03:
            drawn = rng
        words = drawn.choice((1, 3, 12, 40, 90))
        script: dict[str, Any] = {
            "words": words,
            "tokens_per_s": drawn.choice((8, 20, 60)),
            "prefill_ms": drawn.choice((10, 400, 1_500)),
        }
        if drawn.random() < 0.08:
            script[drawn.choice(("fail_at", "hang_at"))] = drawn.randrange(0, words)
        return Wish(
            user=user,
            key=f"key-{number}",
            content=msgspec.json.encode({"script": script}).decode(),
            said="".join(f"word{at} " for at in range(1, words + 1)),
            stream=rng.random() < 0.85,
        )

    async def _ask(self, wish: Wish) -> None:
        for _ in range(TRIES_MAX):
            try:
                done = await self._post(wish)
            except (Broken, TimeoutError):
                self._trace.mark("post broken")
                done = False
            except NeverBegan:
                self._trace.mark("in progress, and never began")
                done = False
            if done:
                return
            await asyncio.sleep(self._rng.uniform(0.1, 1.5))
        self._trace.mark("client gave up asking")

    async def _post(self, wish: Wish) -> bool:
        """Whether the client is content; a stream is read to its end by tasks of their own."""
        headers = bearer(
            wish.user, **{"idempotency-key": wish.key, "content-type": "application/json"}
        )
        if self._rng.random() < 0.7:
            headers["prefer"] = "reattach"
        exchange = self._request("POST", "/v1/generations", headers, wish.body)
        async with asyncio.timeout(SILENCE_S_MAX + 40):
            head = await exchange.head()
        if head.headers.get("content-type") == "text/event-stream":
            generation_id = head.headers["x-generation-id"]
            self._history.accepted(generation_id, wish.user.name, wish.said)
            await self._read(wish.user, generation_id, exchange)
            return True
        return await self._document(wish, await self._answered(exchange, head))

    async def _document(self, wish: Wish, answer: Answered) -> bool:
        self._trace.mark(f"told {answer.status} {answer.code}".rstrip())
        if answer.status == 200:
            output = answer.body["output"]
            text = output[0]["text"] if output else ""
            self._history.accepted(answer.body["id"], wish.user.name, wish.said)
            self._history.whole(answer.body["id"], answer.body["status"], text)
            return True
        if answer.code == "internal":
            raise AssertionError(f"an edge failed: {answer.body}")
        if answer.code == "not_found":
            raise AssertionError(f"a POST of {wish.key} is not found")
        if answer.code == "generation_in_progress" and self._rng.random() < 0.8:
            assert answer.generation_id is not None
            await self._read(wish.user, answer.generation_id, None, accepted=False)
            return True
        return not answer.body["error"]["retryable"]

    # --- reading

    async def _read(
        self, user: User, generation_id: str, exchange: Exchange | None, accepted: bool = True
    ) -> None:
        """To the end, over any number of connections, with what people do meanwhile."""
        rng = self._rng
        reading = self._history.reading(self._process, user.name, generation_id)
        reading.accepted = accepted
        if rng.random() < 0.2:
            self._loop.create_task(self._stop(user, generation_id, rng.uniform(0.0, 6.0)))
        if rng.random() < 0.2:
            other = self._history.reading(self._process, user.name, generation_id)
            other.accepted = False
            self._loop.create_task(self._watch(user, other))
        await self._follow(user, reading, exchange)

    async def _watch(self, user: User, reading: Reading) -> None:
        """Another screen of the same user."""
        with contextlib.suppress(NeverBegan):
            await self._follow(user, reading, None)

    async def _follow(self, user: User, reading: Reading, exchange: Exchange | None) -> None:
        rng = self._rng
        cuts = rng.choice((0, 0, 0, 1, 3))
        if rng.random() < 0.08:
            walks_away_s: float | None = self._loop.time() + rng.uniform(0.1, 5.0)
        else:
            walks_away_s = None
        try:
            while reading.waits:
                leave_at_s = self._loop.time() + rng.uniform(0.05, 3.0) if cuts else None
                cuts = max(0, cuts - 1)
                if walks_away_s is not None and self._loop.time() >= walks_away_s:
                    reading.gave_up = True
                    self._trace.mark("client walked away")
                    return
                try:
                    if exchange is None:
                        exchange = await self._again(user, reading)
                    if exchange is not None:
                        await self._stream(exchange, reading, leave_at_s)
                except (Broken, TimeoutError):
                    self._trace.mark("stream broken")
                finally:
                    if exchange is not None:
                        exchange.leave()
                    exchange = None
                if reading.waits:
                    await asyncio.sleep(rng.uniform(0.05, 1.0))
        except AssertionError as error:
            self._loop.fail(error)

    async def _again(self, user: User, reading: Reading) -> Exchange | None:
        """The stream of a known generation behind the last id; None where it must be asked later."""
        headers = bearer(user)
        if reading.last is not None:
            headers["last-event-id"] = reading.last_event_id
            self._trace.mark("came back with an id")
        path = f"/v1/generations/{reading.generation_id}/stream"
        known = self._history.known(reading.generation_id)
        exchange = self._request("GET", path, headers)
        async with asyncio.timeout(SILENCE_S_MAX):
            head = await exchange.head()
            if head.status == 200:
                return exchange
            answer = await self._answered(exchange, head)
        self._trace.mark(f"told {answer.status} {answer.code} while reading")
        if answer.code == "not_found" and not reading.accepted:
            reading.gave_up = True
            raise NeverBegan
        if answer.code == "not_found":
            self._history.not_found(reading, known)
        elif answer.code == "result_unavailable":
            raise AssertionError(f"I1: {reading}: {answer.code} of an accepted request")
        return None

    async def _stream(self, exchange: Exchange, reading: Reading, leave_at_s: float | None) -> None:
        parser = Parser(reading.last_event_id)
        while True:
            left_s = SILENCE_S_MAX
            if leave_at_s is not None:
                left_s = leave_at_s - self._loop.time()
            try:
                async with asyncio.timeout(left_s):
                    chunk = await exchange.chunk()
            except TimeoutError:
                if leave_at_s is None:
                    raise
                self._trace.mark("client cut its stream")
                return
            if chunk is None:
                return
            for event in parser.feed(chunk):
                reading.take(event, self._loop.time())
            if self._rng.random() < 0.02:
                await asyncio.sleep(self._rng.uniform(0.1, 2.0))  # a slow reader

    async def _stop(self, user: User, generation_id: str, after_s: float) -> None:
        await asyncio.sleep(after_s)
        try:
            path = f"/v1/generations/{generation_id}/cancel"
            exchange = self._request("POST", path, bearer(user))
            async with asyncio.timeout(SILENCE_S_MAX):
                answer = await self._answered(exchange, await exchange.head())
        except (Broken, TimeoutError):
            self._trace.mark("cancel broken")
            return
        said = answer.body.get("status", answer.code)
        self._trace.mark(f"cancel told {said}")

    # --- requests

    def _request(
        self, method: str, path: str, headers: dict[str, str], body: bytes = b""
    ) -> Exchange:
        door = self._rng.choice(self._doors.names())
        return self._doors.request(door, method, path, headers, body)

    async def _answered(self, exchange: Exchange, head: Head) -> Answered:
        raw = b""
        while (chunk := await exchange.chunk()) is not None:
            raw += chunk
        body: dict[str, Any] = msgspec.json.decode(raw)
        error = body.get("error") if head.status >= 400 else None
        code = "" if error is None else error["code"]
        return Answered(head.status, code, body, head.headers.get("x-generation-id"))
