"""`milena verify` on the whole stack: what machines recorded under load, a kill and odd input is proven."""

import asyncio
import json
import signal
import subprocess
import sys
from typing import Any

import pytest

from ops.stack.fresh import FreshStack
from processors.machines import MACHINES
from tests.real.client import Client, script
from tests.real.users import Users

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
VERIFY_S_MAX = 200


def verify(stack: FreshStack, *words: str) -> tuple[int, dict[str, Any]]:
    """Exit status and document."""
    done = subprocess.run(
        [sys.executable, "-m", "ops.cli.main", "verify", "--json", *words],
        env=stack.env,
        capture_output=True,
        text=True,
        timeout=VERIFY_S_MAX,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


async def test_what_was_recorded_is_the_folded_log_also_over_a_kill(
    stack: FreshStack, users: Users
) -> None:
    async def ask(key: str) -> int:
        async with Client(stack.url, key) as client:
            return (await client.ask(script(words=20, tokens_per_s=40))).status

    keys = [(await users.new()).key for _ in range(6)]
    asking = asyncio.gather(*map(ask, keys), return_exceptions=True)
    await asyncio.sleep(0.3)  # in the middle: whatever each of them hears, nothing may be lost
    pid = await asyncio.to_thread(stack.hurt, "accounts", signal.SIGKILL)
    await asking
    await asyncio.to_thread(stack.back, "accounts", pid)
    await asyncio.to_thread(stack.serving)
    assert [await ask(key) for key in keys[:2]] == [200, 200]
    code, proof = await asyncio.to_thread(verify, stack)
    assert proof["differences"] == []
    assert (code, proof["proven"]) == (0, True)
    assert {one["machine"] for one in proof["machines"]} == MACHINES.keys()
    for one in proof["machines"]:
        assert one["tally"]["equal"] == one["tally"]["keys"] > 0
        assert one["outputs"] == one["outputs_found"] > 0
    assert proof["generations"] > 0
    assert len(set(proof["tokens"].values())) == 1


def test_other_settings_are_told_from_a_loss(stack: FreshStack) -> None:
    other = FreshStack(stack.data, base=stack.base)
    other.env = {**stack.env, "MILENA_ACCOUNTS_MESSAGES_MAX_PAID": "77"}
    code, told = verify(other, "--machine", "accounts")
    assert code == 2
    assert "accounts decided under plans" in told["error"]["message"]
