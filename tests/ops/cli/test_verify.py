"""`milena verify` over a log in memory: its words, its exit statuses, and what it does not cover."""

from typing import Any

import pytest

from ops.cli import verify
from ops.cli.console import CommandError, ExitCode
from ops.verify import prove as proving
from ops.verify import source
from tests.ops.cli.commands import Ran, milena
from tests.ops.verify.world import World, answered
from topics.registry import CHANGELOGS, RUNS_INBOX

PAID_AND_FREE = {
    "MILENA_ACCOUNTS_MESSAGES_MAX_FREE": "3",
    "MILENA_ACCOUNTS_MESSAGES_MAX_PAID": "6",
}


class Context:
    """The world in place of a broker's consumer."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __enter__(self) -> World:
        return self._world

    def __exit__(self, *_: object) -> None:
        """Nothing to close."""


class Listening:
    """A broker that is there."""

    def __init__(self, *_: Any) -> None:
        """Whatever its address."""

    def listed(self) -> dict[str, Any]:
        return {}


def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> Ran:
    for name, value in PAID_AND_FREE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(source, "BrokerSource", lambda _: Context(world))
    monkeypatch.setattr("ops.cli.topics_broker.Broker", Listening)
    return milena(capsys, "verify", *words)


async def test_a_proof_is_said_in_one_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = run(await answered("a"), monkeypatch, capsys)
    assert ran.code == ExitCode.OK
    lines = ran.out.splitlines()
    assert [line.split()[0] for line in lines[1:5]] == ["runs", "accounts", "metering", "workers"]
    assert lines[5] == (
        "output tokens of 1 generations: used by runs 5, settled by runs 5, "
        "settlement fact 5, usage fact 5"
    )
    assert lines[-1].startswith("proven: fold(log) = table = counters = usage facts (")


async def test_the_first_difference_is_shown_with_place_and_values(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = await answered("a")
    world.remove(world.of(CHANGELOGS["accounts"])[-1])
    ran = run(world, monkeypatch, capsys)
    assert ran.code == ExitCode.FAILED
    at = ran.out.index("state of accounts: key usr_1 accounts")
    shown = ran.out[at:].splitlines()
    assert [line.split()[0] for line in shown[1:4]] == ["field", "log", "found"]
    assert shown[-1].startswith("NOT proven: 1 differences")
    ran = run(world, monkeypatch, capsys, "--json")
    assert (ran.code, ran.document["proven"], ran.document["count"]) == (1, False, 1)
    assert run(world, monkeypatch, capsys, "--machine", "runs").code == ExitCode.OK


async def test_what_is_not_covered_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world = await answered("a", "b")
    partition = next(p for (name, p) in world.records if name == RUNS_INBOX.name)
    world.cut(RUNS_INBOX, partition, 4)
    ran = run(world, monkeypatch, capsys)
    assert ran.code == ExitCode.OK
    assert "runs: events before 2026-12-02 00:00:00." in ran.err
    assert "1 keys were folded from the state recorded then, of 0 nothing is proven" in ran.err
    ran = run(world, monkeypatch, capsys, "--from", "2026-12-02", "--json")
    assert ran.code == 2
    assert "retention cut" in ran.err


async def test_what_cannot_be_judged_has_its_own_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(proving, "SETTLE_S_MAX", 0.0)
    world = await answered("a")
    world.taken.clear()
    ran = run(world, monkeypatch, capsys)
    assert ran.code == 2
    assert "in flight: runs committed 0 of" in ran.err


def test_a_machine_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    ran = milena(capsys, "verify", "--machine", "metrics")
    assert ran.code == ExitCode.BAD_SETTING
    assert "there is no machine metrics: choose from accounts, runs, workers, metering" in ran.err


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1796169600000", 1_796_169_600_000),
        ("2026-12-02", 1_796_169_600_000),
        ("2026-12-02T01:00+01:00", 1_796_169_600_000),
    ],
)
def test_times_are_utc_unless_told(text: str, ms: int) -> None:
    assert verify.at_ms(text) == ms


def test_a_word_is_no_time() -> None:
    with pytest.raises(CommandError, match="yesterday is no time"):
        verify.at_ms("yesterday")
