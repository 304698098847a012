"""The users: requests with few keys and tight quotas, repeats, stops, questions.

Owns the workload at the level of inbox records, and what the users were promised: whoever heard `Queued`
has an accepted request. Each asker is the edge of one process and dies with it.
"""

import asyncio
from hashlib import blake2b
from random import Random
from typing import Any, Final

from schemas.generated import types as t
from tests.simulation.broker import Broker, Place, Rec
from tests.simulation.endpoints import Sender, Tail
from tests.simulation.trace import Trace
from topics import wire
from topics.models import SCRIPTED
from topics.registry import ACCOUNTS_INBOX, EDGE_REPLIES, RUNS_INBOX

AGAIN_S: Final = 0.25
DECISION_S: Final = 0.5
USERS: Final = ("ann", "ben", "cas")
KEYS: Final = 7
PAID: Final = "cas"


class Promises:
    """What anybody outside was told, over all lives of all edges."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}
        """Generation -> user."""
        self.accepted: set[str] = set()
        self.places: dict[str, str] = {}
        """Generation -> key of its runs."""


def sixteen(*parts: str) -> bytes:
    return blake2b("\0".join(parts).encode(), digest_size=16).digest()


class Asker:
    """One edge, in one life of its process."""

    def __init__(
        self, broker: Broker, trace: Trace, rng: Random, promises: Promises, name: str, place: int
    ) -> None:
        self._broker = broker
        self._trace = trace
        self._rng = rng
        self._promises = promises
        self._name = name
        self._partition = place
        self._sender = Sender(broker)
        self._waiting: dict[str, asyncio.Future[t.EdgeReply]] = {}
        self._tail = Tail(broker, (EDGE_REPLIES.name, place), self._heard)
        self._count = 0

    async def ask_forever(self, pause_s: float, until_s: float) -> None:
        """New requests until the workload is over."""
        while not self._tail.ready:  # noqa: ASYNC110  what is waited for has no event
            await asyncio.sleep(0.05)
        while self._broker.loop.time() < until_s:
            await asyncio.sleep(self._rng.expovariate(1 / pause_s))
            self._broker.loop.create_task(self._ask())

    async def _ask(self) -> None:
        rng, user = self._rng, self._rng.choice(USERS)
        key = f"{user}/{rng.randrange(KEYS)}"
        content = "other" if rng.random() < 0.05 else "same"
        for _ in range(rng.choice((1, 1, 2, 3))):
            answer = await self._submit(user, key, content)
            if isinstance(answer, t.Queued):
                await self._follow(user, answer.generation_id, answer)
                return
            if isinstance(answer, t.Repeated):
                self._trace.mark("repeated key")
                if answer.same:
                    await self._follow(user, answer.generation_id, None)
                return
            if answer is None:
                self._trace.mark("no decision in time")
            await asyncio.sleep(rng.uniform(0.1, 1.0))

    async def _submit(self, user: str, key: str, content: str) -> Any:
        self._count += 1
        request = f"{self._name}-{self._count}"
        generation = f"gen_{request}"
        paid = user == PAID
        spec = t.Spec(
            generation_id=generation,
            runs_key=f"run_{key}",
            api=t.Api.GENERATIONS,
            tier=t.Tier.PAID if paid else t.Tier.FREE,
            lane=t.Lane.PAID if paid else t.Lane.FREE,
            model=SCRIPTED.alias,
            model_version=SCRIPTED.version,
            pool=SCRIPTED.pool,
            input_tokens=7,
            output_tokens_max=100,
            queue_wait_ms_max=15_000,
            run_ms_max=20_000,
            on_disconnect=t.OnDisconnect.CANCEL,
            on_worker_loss=t.OnWorkerLoss.FAIL,
        )
        body = t.Submit(
            request_id=request,
            identity=sixteen(key),
            fingerprint=sixteen(key, content),
            reply_partition=self._partition,
            plan_version="simulated",
            spec=spec,
        )
        self._promises.asked[generation] = user
        self._promises.places[generation] = spec.runs_key
        value = t.AccountsInbox(event_id=f"submit-{request}", body=body)
        answer = self._waiting[request] = self._broker.loop.create_future()
        for wait_s in (AGAIN_S, DECISION_S - AGAIN_S):
            self._sender.send(ACCOUNTS_INBOX, user, value)
            try:
                reply = await asyncio.wait_for(asyncio.shield(answer), wait_s)
            except TimeoutError:
                self._trace.mark("submit sent again")
                continue
            if isinstance(reply.body, t.Queued):
                self._promises.accepted.add(reply.body.generation_id)
                self._trace.say(self._name, f"{reply.body.generation_id} is queued")
            return reply.body
        return None

    async def _follow(self, user: str, generation: str, queued: t.Queued | None) -> None:
        """Perhaps a stop, at any time of its life; perhaps a question."""
        rng = self._rng
        if queued is None and rng.random() < 0.5:
            return
        if rng.random() < 0.35:
            await asyncio.sleep(rng.choice((0.0, 0.02, 0.5, 2.0, 6.0)))
            self._count += 1
            stop = t.Stop(
                generation_id=generation,
                user_id=user,
                reason=t.StopReason.USER,
                request_id=f"{self._name}-stop-{self._count}",
                reply_partition=self._partition,
            )
            value = t.RunsInbox(event_id=f"stop-{self._name}-{self._count}", body=stop)
            for _ in range(rng.choice((1, 1, 2))):
                self._sender.send(RUNS_INBOX, self._promises.places[generation], value)
        if rng.random() < 0.2:
            self._count += 1
            query = t.Query(
                request_id=f"{self._name}-query-{self._count}",
                reply_partition=self._partition,
                tier=t.Tier.PAID if user == PAID else t.Tier.FREE,
                user_id=user,
            )
            asked = t.AccountsInbox(event_id=f"query-{self._name}-{self._count}", body=query)
            self._sender.send(ACCOUNTS_INBOX, user, asked)

    def _heard(self, _: Place, rec: Rec) -> None:
        reply = wire.decode(t.EdgeReply, rec.value)
        waiting = self._waiting.get(reply.request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(reply)
