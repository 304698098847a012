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
from edge import feed, hub
from inference import finish, worker
from inference.life import Life
from schemas.generated.types import ClaimRefused, Ended, Granted, WorkerControl
from tests.simulation.bugs import Bug, patched
from tests.simulation.plans import PARTS

Names = Sequence[str]
Given = Sequence[bytes]


def _twin(name: str, value: Any) -> Callable[[ExitStack], None]:
    return lambda stack: stack.enter_context(patch.dict(memory_scripts.TWINS, {name: value}))


def _bug(name: str, within: int, seeds_it: Callable[[ExitStack], None]) -> Bug:
    return Bug(name, within, seeds_it, plan=PARTS.name)


def _fence_nothing(keys: Keyspace, names: Names, given: Given) -> Answer:
    return memory_scripts.fence(keys, names, [b"0", given[1]])


def _end_unseen(keys: Keyspace, names: Names, given: Given) -> Answer:
    """Whatever stands in the stream now is taken for what was seen."""
    there = keys.stream(names[0])
    seen = b"" if there is None else b"%d-%d" % there.last
    moved = 0 if there is None else max(0, there.last[1] + 1 - int(given[4] or given[6]))
    snapshot_at = b"%d" % (int(given[4]) + moved) if given[4] else b""
    terminal_at = b"%d" % (int(given[6]) + moved)
    told = [*given[:3], seen, snapshot_at, given[5], terminal_at, *given[7:]]
    return memory_scripts.end(keys, names, told)


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


def _unfenced(stack: ExitStack) -> None:
    _twin("fence", _fence_nothing)(stack)
    _twin("end", _end_unseen)(stack)


PART_BUGS: Final[tuple[Bug, ...]] = (
    _bug("an end that neither fences nor looks", 20, _unfenced),
    _bug("a second terminal", 20, _twin("end", _end_again)),
    _bug("a refused claim computes", 20, patched(worker.Worker, "_answered", _refused_computes)),
    _bug("finished without its row", 20, patched(finish.Finish, "_store", _not_stored)),
    _bug("the last row wins", 20, patched(MemoryStore, "put_result", _last_write_wins)),
    _bug(
        "no snapshot of nothing", 30, patched(closing, "_needs_snapshot", _only_where_shown_differs)
    ),
    _bug("a repeated end is planned anew", 20, patched(closer_apply, "plan", _plan_anew)),
    _bug("the store is never asked", 20, patched(hub.Hub, "_ask_store", _ask_nobody)),
    _bug("a gap is taken for the next", 20, patched(feed, "_follows", lambda head, entry: True)),
)
