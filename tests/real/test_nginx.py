"""H1 through a proxy: nginx with its default buffering and gzip on passes each event as it happens."""

from pathlib import Path

import pytest

from ops.stack.fresh import FreshStack
from tests.real.client import Client, script
from tests.support.nginx import nginx_before

pytestmark = pytest.mark.real


async def test_events_pass_a_buffering_proxy_as_they_happen(
    stack: FreshStack, paid_key: str, tmp_path: Path
) -> None:
    endless = script(words=5_000, tokens_per_s=40)
    with nginx_before(stack.url, tmp_path) as url:
        async with (
            Client(url, paid_key) as behind,
            Client(stack.url, paid_key) as direct,
            behind.streaming(endless, headers={"Accept-Encoding": "gzip"}) as (answer, events),
        ):
            assert "content-encoding" not in answer.headers
            async for event in events:
                if event.event == "generation.text.delta":
                    break
            # The answer is far from its end: a proxy that held it back would have shown nothing yet.
            assert answer.names[:3] == ["created", "queued", "text.delta"]
            assert (await direct.cancel(answer.generation_id)).status_code == 202
            async for _ in events:
                pass
            assert answer.terminal.event == "generation.cancelled"
            assert (await direct.resume(answer.generation_id)).text == answer.text
