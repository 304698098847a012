"""The four views of one answer must tell one story: raw bytes, deltas, `GET`, facts on the topics."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from connectors.sse.parser import Event, Parser
from ops.stack.fresh import FreshStack
from schemas.generated.types import Code, RunKind, SettlementKind
from tests.real.client import TERMINALS, Answer, Client
from tests.real.log import Facts, facts_once
from tests.real.waiting import until

STATUS_OF: Final = {
    "generation.completed": "completed",
    "generation.cancelled": "cancelled",
    "generation.stopped": "stopped",
    "generation.error": "failed",
}
REPLACEMENT: Final = "\ufffd"


def frames(raw: bytes) -> list[bytes]:
    """The blocks between blank lines; the last one must be whole."""
    assert raw.endswith(b"\n\n"), "the stream ends after a whole frame"
    return raw[:-2].split(b"\n\n")


def check_bytes(raw: bytes) -> None:
    """Valid UTF-8, valid JSON, one terminal at the end, and nothing that a sloppy reader trips on."""
    text = raw.decode("utf-8")
    assert REPLACEMENT not in text
    assert text.splitlines() == text.removesuffix("\n").split("\n"), "lines end at LF only"
    events = [frame for frame in frames(raw) if not frame.startswith(b":")]
    for frame in events:
        names = [line.partition(b": ")[0] for line in frame.split(b"\n")]
        assert names in ([b"event", b"data"], [b"id", b"event", b"data"]), frame
        json.loads(frame.split(b"\ndata: ", 1)[1])
    ends = [
        frame
        for frame in events
        if frame.split(b"generation.", 1)[1].split(b"\n")[0].decode() in TERMINALS
    ]
    assert ends == events[-1:], "exactly one terminal, nothing after it"


def check_byte_by_byte(answer: Answer) -> None:
    """A path that cuts anywhere changes nothing: each byte arrives alone."""
    parser = Parser()
    seen: list[Event] = []
    for byte in answer.raw:
        seen += parser.feed(bytes([byte]))
    assert seen == answer.events


async def one_story(stack: FreshStack, client: Client, answer: Answer) -> Facts:
    """Checks the four views of an ended stream against each other; returns the facts."""
    check_bytes(answer.raw)
    check_byte_by_byte(answer)
    end = answer.data()
    status = await client.status(answer.generation_id)
    assert status["status"] == STATUS_OF[answer.terminal.event]
    assert (status["output"] or [{"text": ""}])[0]["text"] == answer.text
    assert end.get("usage", status["usage"]) == status["usage"]
    assert REPLACEMENT not in json.dumps(status, ensure_ascii=False)
    code = end.get("code")
    assert (status["error"] or {}).get("code") == code
    consumed = status["hold"] == "consumed"
    facts = await facts_once(stack, answer.generation_id, lambda found: _complete(found, consumed))
    check_facts(facts, status, None if code is None else Code(code))
    return facts


def check_facts(facts: Facts, status: dict[str, Any], code: Code | None) -> None:
    """The hold ended once, the run ended once and so, and its tokens were counted once."""
    granted = status["hold"] == "consumed"
    kinds = [fact.kind for fact in facts.settlement]
    expected = [SettlementKind.CONSUMED, SettlementKind.SETTLED]
    assert kinds == (expected if granted else [SettlementKind.RELEASED])
    runs = [fact.kind for fact in facts.runs]
    middle = [RunKind.GRANTED] if granted else []
    assert [kind for kind in runs if kind is not RunKind.STOP_REQUESTED] == [
        RunKind.QUEUED,
        *middle,
        RunKind.ENDED,
        RunKind.CLOSED,
    ]
    (ended,) = [fact for fact in facts.runs if fact.kind is RunKind.ENDED]
    assert ended.terminal is not None
    assert (ended.terminal.value, ended.code) == (status["status"], code)
    assert len(facts.usage) == (1 if granted else 0)
    for fact in facts.usage:
        assert (fact.input_tokens, fact.cached_input_tokens, fact.output_tokens) == tuple(
            status["usage"].values()
        )
        assert not fact.void
    spent = facts.settlement[-1]
    assert (spent.held, spent.slots_used) >= (0, 0)


def _complete(facts: Facts, consumed: bool) -> bool:
    closed = any(fact.kind is RunKind.CLOSED for fact in facts.runs)
    return closed and bool(facts.settlement) and (bool(facts.usage) or not consumed)


async def standing(client: Client) -> list[tuple[Any, ...]]:
    """A user's limits as far as they must not move by themselves."""
    names = ("kind", "limit", "used", "held", "remaining")
    return [
        (name, *(limit[part] for part in names)) for name, limit in (await client.limits()).items()
    ]


@asynccontextmanager
async def nothing_moves(client: Client) -> AsyncIterator[None]:
    """Limits, holds and slots read the same before and after."""
    before = await standing(client)
    yield
    assert await standing(client) == before


async def free(client: Client) -> bool:
    """Nothing held, no slot taken."""
    limits = await client.limits()
    return all(limit["held"] == 0 for limit in limits.values()) and all(
        limit["used"] == 0 for limit in limits.values() if not limit["window_s"]
    )


async def until_free(client: Client, s_max: float = 20.0) -> None:
    await until(lambda: free(client), s_max)
