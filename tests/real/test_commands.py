"""The commands of `milena` on the whole stack: what was declared is there, and a life can be replayed."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from ops.stack.fresh import DidNotCome, FreshStack
from tests.real.client import Client, script
from topics.registry import FACTS_WORKERS, TOPICS

pytestmark = pytest.mark.real

# Each hop of one generation that was asked, answered and closed.
LIFE = {
    "Submit", "AdmissionFact", "Start", "RunFact", "StepRequest", "Open", "Queued", "Claim",
    "Granted", "Consume", "Owned", "SettlementFact", "Finished", "Settle", "Ended", "Used", "Freed",
    "UsageFact", "Closed",
}  # fmt: skip


def document(stack: FreshStack, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stack.milena(*words, "--json"))
    return found


def test_the_broker_is_as_declared_and_a_second_apply_does_nothing(stack: FreshStack) -> None:
    listed = document(stack, "topics", "list")
    assert {row["topic"]: row["state"] for row in listed["topics"]} == {
        topic.name: "ok" for topic in TOPICS
    }
    assert stack.milena("topics", "apply", "--yes") == "nothing to do\n"


def test_a_setting_changed_by_hand_is_shown_and_set_back(stack: FreshStack) -> None:
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{stack.base + 10}"})
    entry = ConfigEntry("retention.ms", "3600000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, FACTS_WORKERS.name, incremental_configs=[entry])
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(timeout=10)
    with pytest.raises(DidNotCome, match="ended with 1"):
        stack.milena("topics", "list")
    done = document(stack, "topics", "apply", "--yes")
    expected = f"{FACTS_WORKERS.name}: retention.ms is 3600000, declared 2592000000"
    assert done == {"created": [], "configured": [expected]}
    stack.milena("topics", "list")


def test_what_prepares_the_stack_is_harmless_again(stack: FreshStack) -> None:
    keys = stack.seeded_keys()
    stack.milena("schemas", "sync")  # the stack serves before its registry is filled
    for words in (("store", "migrate"), ("keys", "seed"), ("schemas", "sync")):
        assert stack.milena(*words) == "nothing to do\n", words
    assert stack.seeded_keys() == keys


async def test_a_key_lives_from_create_to_revoke(stack: FreshStack) -> None:
    made = document(stack, "keys", "create", "--tier", "paid", "--name", "ann")
    listed = {row["key_id"]: row for row in document(stack, "keys", "list")["keys"]}
    row = listed[made["key_id"]]
    assert (row["tier"], row["name"], row["revoked_at_ms"]) == ("paid", "ann", None)
    assert made["key"] not in json.dumps(list(listed.values()))
    async with Client(stack.url, made["key"]) as client:
        assert (await client.ask(script(words=2))).status == 200
    stack.milena("keys", "revoke", made["key_id"])
    again = {row["key_id"]: row for row in document(stack, "keys", "list")["keys"]}
    assert again[made["key_id"]]["revoked_at_ms"]


async def test_replay_shows_every_hop(stack: FreshStack, paid_key: str) -> None:
    async with Client(stack.url, paid_key) as client:
        answer = await client.ask(script(text="a private word"))
        other = await client.ask(script(words=3))
    moments: list[dict[str, Any]] = []
    for _ in range(50):  # the closer's last word comes after the terminal
        moments = document(stack, "replay", answer.generation_id)["moments"]
        if {moment["record"] for moment in moments} >= LIFE:
            break
    assert {moment["record"] for moment in moments} - {"Due"} == LIFE
    times = [moment["append_ms"] for moment in moments]
    assert times == sorted(times)
    told = json.dumps(moments)
    assert other.generation_id not in told
    assert "private" not in told
    table = stack.milena("replay", answer.generation_id)
    assert len(table.splitlines()) == len(moments) + 1


def test_ask_streams_and_ctrl_c_stops_on_the_server(stack: FreshStack) -> None:
    terminal, inside = pty.openpty()
    words = ("ask", script(words=500, tokens_per_s=20), "--model", "scripted")
    asking = subprocess.Popen(
        [sys.executable, "-m", "ops.cli.main", *words],
        env=stack.env,
        stdout=inside,
        stderr=subprocess.PIPE,
    )
    os.close(inside)
    shown = b""
    while shown.count(b" ") < 5:
        assert select.select([terminal], [], [], 30)[0], "no text came"
        shown += os.read(terminal, 1_000)
    asking.send_signal(signal.SIGINT)
    _, err = asking.communicate(timeout=30)
    shown += os.read(terminal, 10_000)
    os.close(terminal)
    assert asking.returncode == 130, err.decode()
    last = err.decode().splitlines()[-1]
    assert last.startswith("cancelled, ")
    written = len(shown.decode().split())
    assert f"{written} out" in last, "what was shown is what was counted"
    generation_id = last.rpartition(" ")[2]
    facts = document(stack, "replay", generation_id)["moments"]
    ended = [moment["fields"] for moment in facts if moment["record"] == "Ended"]
    assert [fields["terminal"] for fields in ended] == ["cancelled"]


def test_ask_answers_a_program_with_one_document(stack: FreshStack) -> None:
    asked = script(text="Tränen 😀 zum Abschied")
    answer = document(stack, "ask", asked, "--model", "scripted", "--tier", "free")
    assert (answer["text"], answer["status"]) == ("Tränen 😀 zum Abschied", "completed")
