"""Seeded bugs of the worker, the closer, the edge, Redis and the store: each turns one safety off.

Owns the switches, and nothing else; what must find them is the whole world of `whole.py`.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, Final
from unittest.mock import patch

import msgspec

from connectors.closer import apply as closer_apply
from connectors.closer import closing
from connectors.redis import memory_scripts
from connectors.redis.memory_keys import Answer, Keyspace
from connectors.redis.shown import Shown
from connectors.store import Result
from connectors.store.memory import MemoryStore
from edge import feed, hub, opening, resume, submit
from edge.sse import Framer
from inference import finish, worker
from inference.life import Life
from schemas.generated.types import ClaimRefused, Ended, Granted, WorkerControl
from tests.simulation.bugs import Bug

Names = Sequence[str]
Given = Sequence[bytes]


def _patch(owner: Any, name: str, value: Any) -> Callable[[ExitStack], None]:
    return lambda stack: stack.enter_context(patch.object(owner, name, value))


def _twin(name: str, value: Any) -> Callable[[ExitStack], None]:
    return lambda stack: stack.enter_context(patch.dict(memory_scripts.TWINS, {name: value}))


def _append_of_any_epoch(keys: Keyspace, names: Names, given: Given) -> Answer:
    fields = keys.hash(names[1])
    if fields is not None:
        fields.pop("ended", None)
        fields["epoch"] = b"0"
    return memory_scripts.append(keys, names, given)


def _append_tells_once(keys: Keyspace, names: Names, given: Given) -> Answer:
    there = keys.stream(names[0])
    repeated = there is not None and (int(given[1]), int(given[2])) in there.entries
    answer = memory_scripts.append(keys, names, given)
    if repeated and isinstance(answer, list) and len(answer) == 4:
        answer[1] = 0
    return answer


def _end_again(keys: Keyspace, names: Names, given: Given) -> Answer:
    (keys.hash(names[1]) or {}).pop("ended", None)
    there = keys.stream(names[0])
    if there is None or there.last[0] != int(given[1]):
        return memory_scripts.end(keys, names, given)
    last, ended = there.last, [*given]
    ended[3] = b"%d-%d" % last
    there.last = (0, last[1])
    ended[3], ended[4], ended[6] = b"0-%d" % last[1], b"", b"%d" % (last[1] + 1)
    return memory_scripts.end(keys, names, ended)


def _refused_computes(
    self: worker.Worker, life: Life, control: WorkerControl, answer: Granted | ClaimRefused
) -> None:
    if isinstance(answer, ClaimRefused):
        answer = Granted(admitted_at_ms=1, run_deadline_at_ms=2_000_000_000_000)
    _ANSWERED(self, life, control, answer)


_ANSWERED = worker.Worker._answered


async def _not_stored(self: finish.Finish) -> bool:
    return True


async def _last_write_wins(self: MemoryStore, row: Result, phase: Any) -> None:
    self._results.pop(row.generation_id, None)
    await _PUT_RESULT(self, row, phase)


_PUT_RESULT = MemoryStore.put_result


def _only_where_shown_differs(ended: Ended, shown: Shown | None, text: str) -> bool:
    return bool(text) if shown is None else shown.text != text or not shown.whole


def _plan_anew(
    generation_id: str, number: int, ended: Ended, shown: Shown | None, row: Result | None
) -> closing.Plan | None:
    if row is not None and row.epoch == ended.closing_epoch:
        row = msgspec.structs.replace(row, epoch=0)
    return _PLAN(generation_id, number, ended, shown, row)


_PLAN = closing.plan


async def _ask_nobody(self: hub.Hub, of: feed.Feed) -> None:
    """The store is never asked for an end."""


def _written_once(*_: Any) -> None:
    """What the store did not take is not written again."""


def _restart_with_old_id(framer: Framer) -> bytes:
    return opening.restart_frame(framer).removeprefix(b"id:\n")


PART_BUGS: Final[tuple[Bug, ...]] = (
    Bug("append of any epoch", 20, _twin("append", _append_of_any_epoch)),
    Bug("a lost stream is told once", 300, _twin("append", _append_tells_once)),
    Bug("a second terminal", 20, _twin("end", _end_again)),
    Bug("a refused claim computes", 20, _patch(worker.Worker, "_answered", _refused_computes)),
    Bug("finished without its row", 60, _patch(finish.Finish, "_store", _not_stored)),
    Bug("the last row wins", 60, _patch(MemoryStore, "put_result", _last_write_wins)),
    Bug(
        "no snapshot of nothing", 30, _patch(closing, "_needs_snapshot", _only_where_shown_differs)
    ),
    Bug("a repeated end is planned anew", 60, _patch(closer_apply, "plan", _plan_anew)),
    Bug("the store is never asked", 20, _patch(hub.Hub, "_ask_store", _ask_nobody)),
    Bug("a gap is taken for the next", 30, _patch(feed, "_follows", lambda head, entry: True)),
    Bug("a payload is written once", 60, _patch(submit, "_write_again", _written_once)),
    Bug("a restart keeps its id", 300, _patch(resume, "restart_frame", _restart_with_old_id)),
)
