"""The load of a cell: people who ask, read, leave, come back, repeat themselves and stop.

Owns what they do, chosen from a seed; how a call is made is `client`'s. Each request is pursued to its
terminal, whatever comes between: same key, last event id, either edge.
"""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

import httpx2
import msgspec

from ops.drill.client import Client, Patience, Person, body_of, ended
from ops.drill.evidence import Call, Seen
from ops.drill.history import History

PAUSE_S: Final = (0.2, 0.8)
"""Between two tries of one request."""
SPENT: Final = "quota_exhausted"
_FINAL: Final = frozenset({SPENT, "model_backend_error", "generation_timeout"})
"""Refusals that stay as they are, whatever their status."""
_REFUSED: Final = frozenset({400, 401, 403, 404, 409, 410, 421})


class Manner(Enum):
    """How somebody goes about one request."""

    STAY = "stay"
    LEAVE = "leave and come back"
    REATTACH = "ask again with the same key"
    TWICE = "ask twice at once"
    OTHER = "the same key for another question"
    STOP = "stop it"
    DOCUMENT = "ask for one document"


WEIGHTS: Final[dict[Manner, int]] = {
    Manner.STAY: 8,
    Manner.LEAVE: 4,
    Manner.REATTACH: 2,
    Manner.TWICE: 2,
    Manner.OTHER: 1,
    Manner.STOP: 2,
    Manner.DOCUMENT: 1,
}


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How much load, and of what kind."""

    steady: int = 6
    """People who ask one long answer after the other."""
    hasty: int = 2
    """People with a small allowance who ask short ones until it is spent."""
    words: tuple[int, int] = (30, 120)
    tokens_per_s: float = 30.0

    @property
    def answer_s_max(self) -> float:
        return self.words[1] / self.tokens_per_s + 1.0


class Load:
    """One cell's people. `run` until `ask_to_stop`, then `drained`."""

    def __init__(
        self,
        shape: Shape,
        people: Sequence[Person],
        edges: Sequence[str],
        http: httpx2.AsyncClient,
        history: History,
        seed: int,
        now_ms: Callable[[], int],
    ) -> None:
        assert len(people) == shape.steady + shape.hasty, "one person for each place"
        self._shape = shape
        self._history = history
        self._edges = edges
        self._seed = seed
        self._stopping = asyncio.Event()
        self._answering: set[str] = set()
        self._changed = asyncio.Condition()
        self.begun = 0
        """Requests that were sent, each try counted."""
        self.ended = 0
        """Requests pursued to a terminal or a refusal, those of the hasty left out."""
        self.served_ms = 0
        """When the newest request that was answered had been asked."""
        self.spent = 0
        """Refusals because an allowance was used up."""
        self.generations: dict[str, str] = {}
        """Every generation that anybody was told of, and its user."""
        self._people = [
            (person, Client(f"{at:02d}", person, http, history, now_ms))
            for at, person in enumerate(people)
        ]
        self._hasty = {client.name for _, client in self._people[shape.steady :]}
        """Theirs are over at once, so that they do not count as answers under way."""
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def answering(self) -> int:
        """Answers that somebody reads just now."""
        return len(self._answering)

    @property
    def broken(self) -> int:
        """Calls whose connection failed so far."""
        return self._history.broken

    def somebody(self) -> Client:
        """One of the people, for a question of the nemesis's own."""
        return self._people[0][1].beside()

    def start(self) -> None:
        for at, (_, client) in enumerate(self._people):
            chance = random.Random(f"{self._seed}/{at}")  # noqa: S311  a seeded choice, no secret
            hasty = at >= self._shape.steady
            self._tasks.append(asyncio.create_task(self._live(client, chance, hasty=hasty)))

    async def until_answering(self, count: int, s_max: float = 20.0) -> None:
        """
        Raises:
            TimeoutError: not so many answers at once in time.
        """
        async with asyncio.timeout(s_max), self._changed:
            await self._changed.wait_for(lambda: self.answering >= count)

    async def until_ended(self, count: int, s_max: float = 60.0) -> None:
        """So many requests ended since the start.

        Raises:
            TimeoutError: not in time.
        """
        async with asyncio.timeout(s_max), self._changed:
            await self._changed.wait_for(lambda: self.ended >= count)

    async def until_served(self, since_ms: int, s_max: float) -> None:
        """Somebody who asked since then was answered.

        Raises:
            TimeoutError: not in time.
        """
        async with asyncio.timeout(s_max), self._changed:
            await self._changed.wait_for(lambda: self.served_ms >= since_ms)

    def ask_to_stop(self) -> None:
        """Nobody begins anything new."""
        self._stopping.set()

    async def drained(self, s_max: float) -> int:
        """Waits until all that was begun has ended. How many people were still waiting at the deadline,
        who then give up."""
        if not self._tasks:
            return 0  # nobody was sent out
        _, late = await asyncio.wait(self._tasks, timeout=s_max)
        for task in late:
            task.cancel()
        ends = await asyncio.gather(*self._tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        return len(late)

    async def give_up(self) -> None:
        """Everybody goes at once, wherever they are; harmless where all have gone."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _live(self, client: Client, chance: random.Random, *, hasty: bool) -> None:
        while not self._stopping.is_set():
            key = uuid.UUID(int=chance.getrandbits(128), version=4).hex
            words = chance.randint(*self._shape.words)
            if hasty:
                body = body_of(3, 200.0, stream=True)
                if (await self._pursue(client, chance, key, body)).code == SPENT:
                    self.spent += 1
                    await asyncio.sleep(1.0)
                continue
            manner = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            body = body_of(words, self._shape.tokens_per_s, stream=manner is not Manner.DOCUMENT)
            await self._go_about(manner, client, chance, key, body)

    async def _go_about(
        self, manner: Manner, client: Client, chance: random.Random, key: str, body: dict[str, Any]
    ) -> None:
        match manner:
            case Manner.LEAVE | Manner.REATTACH:
                leaving = Patience(chance.randint(1, 4))
                again = manner is Manner.REATTACH
                await self._pursue(client, chance, key, body, leaving, again=again)
            case Manner.TWICE:
                async with asyncio.TaskGroup() as both:
                    for one in (client, client.beside()):
                        both.create_task(self._pursue(one, chance, key, body))
            case Manner.OTHER:
                await self._pursue(client, chance, key, body)
                other = body_of(3, 200.0, stream=True, mark="something else")
                await client.ask(self._edge(chance), key, other)
            case Manner.STOP:
                await self._stop(client, chance, key, body)
            case _:
                await self._pursue(client, chance, key, body)

    async def _stop(
        self, client: Client, chance: random.Random, key: str, body: dict[str, Any]
    ) -> None:
        seen = await self._pursue(client, chance, key, body, Patience(1), once=True)
        if seen.generation_id and not ended(seen):
            await client.cancel(self._edge(chance), seen.generation_id)
            await self._finish(client, chance, seen)

    async def _pursue(
        self,
        client: Client,
        chance: random.Random,
        key: str,
        body: dict[str, Any],
        patience: Patience | None = None,
        *,
        again: bool = False,
        once: bool = False,
    ) -> Seen:
        """Asks until there is an answer or a definite no, and reads it to its end."""
        place = f"{client.name}/{key}/{chance.random()}"
        while True:
            edge = self._edge(chance)
            if client.name not in self._hasty:
                self._answering.add(place)
            self.begun += 1
            await self._tell()
            try:
                seen = await client.ask(edge, key, body, patience)
            finally:
                self._answering.discard(place)
            if seen.generation_id:
                self.generations[seen.generation_id] = client.person.user_id
            if seen.status == 200 or seen.status in _REFUSED or seen.code in _FINAL:
                break
            await asyncio.sleep(chance.uniform(*PAUSE_S))
        if once or seen.status != 200 or ended(seen) or not body["stream"]:
            return await self._counted(client, seen)
        if again:
            return await self._pursue(client, chance, key, body)
        return await self._finish(client, chance, seen)

    async def _finish(self, client: Client, chance: random.Random, seen: Seen) -> Seen:
        """Goes on reading a generation until its terminal."""
        generation_id = seen.generation_id
        place = f"{client.name}/{generation_id}/{chance.random()}"
        while not ended(seen):
            await asyncio.sleep(chance.uniform(*PAUSE_S))
            self._answering.add(place)
            try:
                after = client.place(generation_id)
                seen = await client.resume(self._edge(chance), generation_id, after)
            finally:
                self._answering.discard(place)
            if seen.status in _REFUSED or (seen.status == 200 and not seen.shown):
                break  # over: nothing follows what this reader has
        return await self._counted(client, seen)

    async def _counted(self, client: Client, seen: Seen) -> Seen:
        self.ended += client.name not in self._hasty
        if seen.call is Call.ASK and ended(seen):
            self.served_ms = max(self.served_ms, seen.began_ms)
        await self._tell()
        return seen

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _edge(self, chance: random.Random) -> str:
        return chance.choice(self._edges)
