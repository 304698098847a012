"""How a process speaks to the broker: an idempotent producer, and membership of a group.

Owns what the client libraries own: records of one partition stay in order, are buffered in the process
and sent when it runs; heartbeats go on beside the work. Decides nothing.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from tests.simulation.broker import Broker, Draft, Failed, Place, Rec
from tests.simulation.groups import Beat, Group, Joined

BATCH_MAX: Final = 64
HEARTBEAT_S: Final = 3.0
REQUEST_S_MAX: Final = 30.0


class Producer:
    """`allowed` is asked before each batch leaves the process: the self-fence."""

    def __init__(self, broker: Broker, allowed: Callable[[], bool]) -> None:
        self._broker = broker
        self._allowed = allowed
        self._queues: dict[Place, deque[tuple[Draft, asyncio.Future[Rec]]]] = {}
        self._flying: set[Place] = set()
        self._open: dict[asyncio.Future[Rec], None] = {}

    def send(self, place: Place, draft: Draft) -> "asyncio.Future[Rec]":
        """Queued; the future ends with the record in its place, or with `Failed`."""
        future: asyncio.Future[Rec] = self._broker.loop.create_future()
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = deque()
        queue.append((draft, future))
        self._open[future] = None
        future.add_done_callback(lambda done: self._open.pop(done, None))
        if place not in self._flying:
            self._flying.add(place)
            self._broker.loop.call_soon(self._dispatch, place)
        return future

    async def flush(self) -> None:
        """Returns once every send made before has its outcome."""
        if self._open:
            await asyncio.wait([*self._open])

    def _dispatch(self, place: Place) -> None:
        queue = self._queues[place]
        if not queue:
            self._flying.discard(place)
            return
        if not self._allowed():
            return
        batch = [queue.popleft() for _ in range(min(len(queue), BATCH_MAX))]

        def reply(result: list[Rec] | Failed) -> None:
            for at, (_, future) in enumerate(batch):
                if future.done():
                    continue
                if isinstance(result, Failed):
                    future.set_exception(result)
                else:
                    future.set_result(result[at])
            self._dispatch(place)

        self._broker.produce(place, [draft for draft, _ in batch], reply)


class Member:
    """A static member of a group. `joined` and `left` are told of every change of its partitions
    (with the moment the request was sent); `lost` that the group does not know it any more, or that
    another process took its name; `heard` of every heartbeat that was answered well."""

    def __init__(
        self,
        broker: Broker,
        group: Group,
        name: str,
        life: int,
        joined: Callable[[Joined, float], None],
        left: Callable[[], Awaitable[None]],
        lost: Callable[[], None],
        forgiving: bool = False,
    ) -> None:
        self._broker = broker
        self._group = group
        self._name = name
        self._life = life
        self._joined = joined
        self._left = left
        self._lost = lost
        self._forgiving = forgiving
        self._generation = -1
        self._joining = False
        self._leaving = False
        self.heard: Callable[[float], None] = lambda sent_s: None
        self.closed = False

    def start(self) -> None:
        self._join()
        self._broker.loop.call_later(HEARTBEAT_S, self._beat)

    def commit(self, offsets: Mapping[Place, int], reply: Callable[[bool], None]) -> None:
        self._group.commit(self._name, self._life, self._generation, offsets, reply)

    def leave(self) -> None:
        self.closed = True
        self._group.leave(self._name, self._life)

    def _join(self) -> None:
        self._joining = True
        sent_s = self._broker.loop.time()

        def reply(joined: Joined | None) -> None:
            if self.closed:
                return
            if joined is None:
                self._lost()
                return
            self._joining = False
            self._generation = joined.generation
            self._joined(joined, sent_s)

        self._group.join(self._name, self._life, reply)

    def _beat(self) -> None:
        if self.closed:
            return
        sent_s = self._broker.loop.time()

        def reply(answer: Beat) -> None:
            if not self.closed and not self._joining:
                self._beaten(answer, sent_s)

        if not self._joining:
            self._group.beat(self._name, self._life, self._generation, reply)
        self._broker.loop.call_later(HEARTBEAT_S, self._beat)

    def _beaten(self, answer: Beat, sent_s: float) -> None:
        if answer in (Beat.OK, Beat.REJOIN):
            self.heard(sent_s)
        if answer is Beat.FENCED or (answer is Beat.UNKNOWN and not self._forgiving):
            self._lost()
        elif answer is not Beat.OK and not self._leaving:
            self._leaving = True
            self._broker.loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        """What is held is given up in order, then the member joins anew."""
        await self._left()
        self._leaving = False
        self._join()


async def once(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Awaits the reply of one request; a request that is not answered in time is `Failed`."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def reply(result: Any) -> None:
        if not future.done():
            future.set_result(result)

    ask(reply)
    try:
        result = await asyncio.wait_for(future, REQUEST_S_MAX)
    except TimeoutError:
        raise Failed("no answer") from None
    if isinstance(result, Failed):
        raise result
    return result
