"""Text that clients and proxies break: characters cut between chunks, characters that look like line
ends. Every view of the answer shows the same text, and no replacement mark."""

import asyncio
import json
import shutil

import pytest

from ops.stack.fresh import FreshStack
from tests.real.client import Answer, Client, body_of, script
from tests.real.views import REPLACEMENT, check_bytes, one_story

pytestmark = pytest.mark.real
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
SPLIT = f"那个 e\u0301 {FAMILY}"
LINES = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\u001dh\u001ei\rj\r\nk\u2028"


def one_byte_a_token(text: str, **more: float) -> str:
    return script(bytes=[f"{byte:02x}" for byte in text.encode()], **more)


async def test_characters_cut_between_chunks_are_whole_in_every_view(
    stack: FreshStack, ann: Client
) -> None:
    content = one_byte_a_token(SPLIT, tokens_per_s=40)
    streamed, whole = await asyncio.gather(ann.ask(content), ann.once(content))
    assert streamed.text == SPLIT
    assert whole.json()["output"][0]["text"] == SPLIT
    assert REPLACEMENT not in whole.text
    deltas = [event for event in streamed.events if event.event.endswith("text.delta")]
    assert len(deltas) > 2, "cut by several flushes"
    assert streamed.data()["usage"]["output_tokens"] == len(SPLIT.encode())
    await one_story(stack, ann, streamed)


async def test_a_reader_that_resumes_after_any_id_has_the_whole_text(ann: Client) -> None:
    streamed = await ann.ask(one_byte_a_token(SPLIT, tokens_per_s=40))
    with_id = [event for event in streamed.events if event.id]
    for seen, last in enumerate(with_id[:-1], start=1):
        rest = await ann.resume(streamed.generation_id, last.id)
        check_bytes(rest.raw)
        told = [event for event in rest.events if event.event != "generation.created"]
        assert told == with_id[seen:]
    whole = await ann.resume(streamed.generation_id)
    assert whole.text == SPLIT


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_that_ends_inside_a_character_drops_it_everywhere(
    stack: FreshStack, ann: Client, stream: bool
) -> None:
    content = one_byte_a_token("那个")
    if not stream:
        whole = (await ann.once(content, max_output_tokens=4)).json()
        assert whole["output"] == [{"type": "text", "text": "那"}]
        assert (whole["finish_reason"], whole["usage"]["output_tokens"]) == ("length", 4)
        return
    cut = await ann.ask(content, max_output_tokens=4)
    assert cut.text == "那"
    assert cut.data()["finish_reason"] == "length"
    assert cut.data()["usage"]["output_tokens"] == 4
    await one_story(stack, ann, cut)


def told(lines: list[str]) -> tuple[str, list[str]]:
    """What a reader that trusts its line splitter makes of a stream: text and event names."""
    datas = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    names = [line[7:] for line in lines if line.startswith("event: ")]
    return "".join(data.get("delta", "") for data in datas), names


@pytest.mark.parametrize("echoed", [False, True])
async def test_line_like_characters_split_nothing(
    stack: FreshStack, ann: Client, echoed: bool
) -> None:
    """In an answer's own text, and in a user's that comes back."""
    content = LINES if echoed else script(tokens=list(LINES), tokens_per_s=40)
    answer = await ann.ask(content)
    assert answer.text == LINES
    await one_story(stack, ann, answer)
    assert (await ann.once(content)).json()["output"][0]["text"] == LINES


async def test_sloppy_readers_see_every_event_and_the_terminal(
    stack: FreshStack, ann: Client
) -> None:
    content = script(tokens=[*LINES, "end\u2028"], tokens_per_s=60)
    names: dict[str, list[str]] = {}
    async with ann.http.stream(
        "POST", "/v1/generations", json=body_of(content), headers={"Idempotency-Key": "lines"}
    ) as response:
        text, names["iter_lines"] = told([line async for line in response.aiter_lines()])
    assert text == f"{LINES}end\u2028"
    replayed = await ann.ask(content, idempotency_key="lines")
    text, names["splitlines"] = told(replayed.raw.decode().splitlines())
    assert text == f"{LINES}end\u2028"
    assert all(seen[-1] == "generation.completed" for seen in names.values())


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
async def test_curl_shows_the_stream_as_it_is(stack: FreshStack, ann: Client) -> None:
    content = script(tokens=[*LINES], tokens_per_s=60)
    key = ann.http.headers["authorization"]
    process = await asyncio.create_subprocess_exec(
        "curl", "-sN", f"{stack.url}/v1/generations", "-H", f"Authorization: {key}",
        "-H", "Idempotency-Key: curl", "-H", "Content-Type: application/json",
        "-d", json.dumps(body_of(content)),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    raw, _ = await process.communicate()
    assert process.returncode == 0
    check_bytes(raw)
    shown = Answer(200, {}, raw)
    lines = shown.raw.decode().split("\n")
    assert told(lines)[0] == LINES
