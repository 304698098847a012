"""Cells that take topics away: case P3, and the lost changelog of row 18.

Each spoils its stack by what it does to the log, so it runs on one of its own and is judged by what the
parts say and do, not by what was accepted before.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ops.drill import signs, topic_loss
from ops.drill.cell import Cell, Needs
from ops.drill.client import body_of
from ops.drill.evidence import Seen
from ops.drill.nemesis import Nemesis
from topics.registry import ACCOUNTS_INBOX, CHANGELOGS, CONTROL_STREAMS, EDGE_REPLIES
from topics.topic import Topic

REFUSED_S_MAX: Final = 0.5
DECISION_MS: Final = 500
HEALED_S_MAX: Final = 90.0
OK: Final = 200
UNAVAILABLE: Final = 503


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """One topic, whose process is started without it, and the command without which it must not go on."""

    topic: Topic
    part: str
    command: tuple[str, ...] = ()
    asked: bool = True
    """A POST cannot be answered without it."""


LOSSES: Final = (
    Loss(topic=EDGE_REPLIES, part="edge", asked=False),
    Loss(topic=CONTROL_STREAMS, part="closer", asked=False),
    Loss(topic=ACCOUNTS_INBOX, part="accounts", command=("topics", "adopt", "accounts", "--yes")),
)
CHANGELOG: Final = Loss(
    topic=CHANGELOGS["accounts"],
    part="accounts",
    command=("topics", "refold", "accounts", "--yes"),
)


async def missing(nemesis: Nemesis) -> None:
    """Takes each topic away, starts its reader, and gives it back."""
    await _lose(nemesis, LOSSES)


async def changelog_lost(nemesis: Nemesis) -> None:
    """What is told by the inbox alone is told again: a spent key is known, whatever was lost."""
    client, key = nemesis.load.somebody(), nemesis.new_key()
    before = await client.ask(nemesis.ground.edges[0], key, _body())
    nemesis.require(before.status == OK, f"the first answer was {before.status}")
    await asyncio.sleep(3.0)  # its offsets are committed by then
    await _lose(nemesis, (CHANGELOG,))
    after = await client.ask(nemesis.ground.edges[0], key, _body())
    same = after.generation_id == before.generation_id
    nemesis.require(same, f"the key now names {after.generation_id}, not {before.generation_id}")


async def _lose(nemesis: Nemesis, losses: Sequence[Loss]) -> None:
    for loss in losses:
        await nemesis.ground.serving()
        await _take_away(nemesis, loss)
        await _apply(nemesis)
        if loss.command:
            await _command_is_named(nemesis, loss)
            await asyncio.to_thread(nemesis.ground.stack.milena, *loss.command)
            nemesis.note(f"milena {' '.join(loss.command)}", loss.topic.name)
        await _runs_again(nemesis, loss)


async def wrong_size(nemesis: Nemesis) -> None:
    """A topic with other partitions than declared: the process refuses, and so does `topics apply`."""
    loss = LOSSES[1]
    bootstrap, name = nemesis.ground.bootstrap, loss.topic.name
    expected = loss.topic.ring.partitions(local=True)
    await nemesis.ground.serving()
    await asyncio.to_thread(topic_loss.delete, bootstrap, loss.topic)
    await asyncio.to_thread(topic_loss.create, bootstrap, loss.topic, expected + 3)
    nemesis.note(f"re-created with {expected + 3} partitions", name)
    since = signs.log_size(nemesis.ground, loss.part)
    await nemesis.send(loss.part, signal.SIGKILL)
    words = (name, str(expected + 3), str(expected))
    await _says(nemesis, loss.part, since, words, "it names topic, found and expected")
    await _not_ready(nemesis, loss.part)
    await asyncio.to_thread(topic_loss.delete, bootstrap, loss.topic)
    await _apply(nemesis)
    await _runs_again(nemesis, loss)


async def _take_away(nemesis: Nemesis, loss: Loss) -> None:
    name = loss.topic.name
    since = signs.log_size(nemesis.ground, loss.part)
    await asyncio.to_thread(topic_loss.delete, nemesis.ground.bootstrap, loss.topic)
    nemesis.note("deleted", name)
    pid = nemesis.ground.stack.part(loss.part).pid
    if pid is not None:
        await nemesis.send(loss.part, signal.SIGKILL)
    await _says(
        nemesis, loss.part, since, (name, "missing"), "it refuses to start, naming the topic"
    )
    await _not_ready(nemesis, loss.part)
    if loss.asked:
        await _refused_in_time(nemesis)
    there = await asyncio.to_thread(topic_loss.exists, nemesis.ground.bootstrap, loss.topic)
    nemesis.require(not there, f"{name} was created by nobody's order")
    nemesis.saw(f"{name} stayed away", not there)


async def _apply(nemesis: Nemesis) -> None:
    await asyncio.to_thread(nemesis.ground.stack.milena, "topics", "apply", "--yes")
    nemesis.note("milena topics apply", "broker")


async def _command_is_named(nemesis: Nemesis, loss: Loss) -> None:
    """Without the operator's word it goes on refusing, and says which word."""
    words = " ".join(("milena", *loss.command[:3]))
    since = signs.log_size(nemesis.ground, loss.part)
    await _says(nemesis, loss.part, since, (words,), f"it names `{words}`")


async def _runs_again(nemesis: Nemesis, loss: Loss) -> None:
    started = time.monotonic()
    ready = await nemesis.until_so(lambda: nemesis.ground.stack.part(loss.part).ready, HEALED_S_MAX)
    nemesis.require(ready, f"{loss.part} does not run again with {loss.topic.name} back")
    seen = await _asked(nemesis, HEALED_S_MAX)
    what = f"nothing is answered {HEALED_S_MAX:g} s after {loss.topic.name} came back"
    nemesis.require(seen is not None and seen.status == OK, what)
    name = f"served_after_{loss.topic.name}_s"
    nemesis.measured[name] = round(time.monotonic() - started, 1)
    nemesis.note("is served again", loss.topic.name)


async def _says(nemesis: Nemesis, part: str, since: int, words: tuple[str, ...], sign: str) -> None:
    def told() -> bool:
        lines = signs.log_tail(nemesis.ground, part, since).splitlines()
        return any(all(word in line for word in words) for line in lines)

    said = await nemesis.until_so(told, 60.0)
    nemesis.require(said, f"{part}: no line with {', '.join(words)}")
    nemesis.saw(f"{part}: {sign}", said)


async def _not_ready(nemesis: Nemesis, part: str) -> None:
    port = nemesis.ground.stack.part(part).port
    assert port is not None, f"{part} listens somewhere"
    status = await asyncio.to_thread(signs.status_of, port)
    nemesis.require(status != OK, f"{part} says that it is ready")


async def _refused_in_time(nemesis: Nemesis) -> None:
    """A POST to the second edge, which knows nothing of the loss but that nobody answers."""
    client = nemesis.load.somebody()
    began = time.monotonic()
    seen = await client.ask(nemesis.ground.edges[1], nemesis.new_key(), _body())
    took_s = time.monotonic() - began
    typed = seen.status == UNAVAILABLE and bool(seen.code)
    nemesis.require(typed, f"a POST got {seen.status} {seen.code}, not a typed 503")
    nemesis.measured["refused_after_s"] = round(took_s, 2)
    bound_s = DECISION_MS / 1_000 + REFUSED_S_MAX
    nemesis.require(took_s <= bound_s, f"the refusal took {took_s:.2f} s, not {bound_s:g}")


async def _asked(nemesis: Nemesis, s_max: float) -> Seen | None:
    """One answer on each edge, tried again until it comes."""
    client, deadline = nemesis.load.somebody(), time.monotonic() + s_max
    seen = None
    for edge in nemesis.ground.edges:
        key = nemesis.new_key()
        while time.monotonic() < deadline:
            seen = await client.ask(edge, key, _body())
            if seen.status == OK:
                break
            await asyncio.sleep(0.5)
    return seen


def _body() -> dict[str, Any]:
    return body_of(3, 200.0, stream=True)


# The edges decide in the time that the case asks for.
SETTINGS: Final[Mapping[str, str]] = {
    "MILENA_EDGE_DECISION_MS_MAX": str(DECISION_MS),
    "MILENA_EDGE_PAYLOAD_MS_MAX": "400",
}

CELLS: Final = (
    Cell(
        name="topics-missing",
        row="P3",
        what="replies, controls and an inbox are deleted, one after another",
        act=missing,
        needs=Needs.OWN,
        settings=SETTINGS,
        judged=False,
        act_s_max=600.0,
    ),
    Cell(
        name="changelog-lost",
        row="18",
        what="the changelog of accounts is deleted, and its inbox folded from the start",
        act=changelog_lost,
        needs=Needs.OWN,
        settings=SETTINGS,
        judged=False,
        act_s_max=300.0,
    ),
    Cell(
        name="topics-wrong-size",
        row="P3",
        what="a topic has other partitions than declared",
        act=wrong_size,
        needs=Needs.OWN,
        settings=SETTINGS,
        judged=False,
        act_s_max=300.0,
    ),
)
