"""One generation's life out of a log with others' in it: all of it, in order, without a word of it."""

from itertools import count
from typing import Any

import msgspec
import pytest

from ops.cli.replay import lines, made_at_ms
from ops.cli.replay_timeline import Follower, Moment, first_topics, in_order, rest_topics
from ops.log_scan import Read
from schemas.generated import types as t
from schemas.generated.types import AccountsInbox, EdgeReply, RunsInbox, StreamControl
from topics import registry as r
from topics.topic import Topic
from topics.wire import encode

MINE, OTHER = "gen_01M8Q5Z3V7B3C5D7F9H1K3M5P7", "gen_01M8Q5Z3V7B3C5D7F9H1K3M5P8"
CANARY = "the canary sings at noon"
PAID_LANE = r.LANE_TOPICS[("scripted", t.Lane.PAID)]


def spec(generation_id: str, run: str) -> t.Spec:
    return t.Spec(
        generation_id=generation_id, runs_key=run, model="scripted", model_version="1",
        pool="scripted", input_tokens=3, output_tokens_max=9, queue_wait_ms_max=1, run_ms_max=1,
    )  # fmt: skip


def submit(generation_id: str, request_id: str, run: str) -> AccountsInbox:
    body = t.Submit(
        request_id=request_id, identity=CANARY.encode(), fingerprint=CANARY.encode(),
        reply_partition=0, plan_version="p", spec=spec(generation_id, run),
    )  # fmt: skip
    return AccountsInbox(event_id="e", body=body)


def start(generation_id: str, request_id: str, run: str) -> RunsInbox:
    body = t.Start(
        request_id=request_id, user_id="usr_1", reply_partition=0, submitted_at_ms=1, limits=(),
        spec=spec(generation_id, run),
    )  # fmt: skip
    return RunsInbox(event_id="e", body=body)


def step(generation_id: str, run: str) -> t.StepRequest:
    return t.StepRequest(
        event_id="e", user_id="u", epoch=1, step=0, admitted_at_ms=1, queue_deadline_at_ms=2,
        spec=spec(generation_id, run),
    )  # fmt: skip


class Log:
    """Records in topics, each later than the one before, unless told to be at once."""

    def __init__(self) -> None:
        self.reads: list[tuple[Read, Topic]] = []
        self._ms = count(1_000)
        self._now = 1_000

    def put(self, topic: Topic, key: str, value: Any, *, at_once: bool = False) -> None:
        self._now = self._now if at_once else next(self._ms)
        raw = value if isinstance(value, bytes | None) else encode(value)
        offset = sum(read.topic == topic.name for read, _ in self.reads)
        self.reads.append((Read(topic.name, 0, offset, self._now, key, raw), topic))

    def life_of(self, generation_id: str) -> list[Moment]:
        follower, found = Follower(generation_id), []
        for wanted in (first_topics(), rest_topics()):
            for read, topic in self.reads:
                if topic in wanted:
                    found.append(follower.take(read, topic))
        return in_order([moment for moment in found if moment is not None])


def names(moments: list[Moment]) -> list[str]:
    return [moment.record for moment in moments]


def test_every_hop_of_mine_and_none_of_anothers() -> None:
    log = Log()
    for generation_id, request_id, run in ((OTHER, "req2", "run2"), (MINE, "req1", "run1")):
        log.put(r.ACCOUNTS_INBOX, "usr_1", submit(generation_id, request_id, run))
        log.put(r.RUNS_INBOX, run, start(generation_id, request_id, run))
        log.put(PAID_LANE, run, step(generation_id, run))
        stopped = StreamControl(
            event_id="e", generation_id=generation_id, epoch=1, number=1,
            body=t.StopOrder(reason=t.StopReason.USER),
        )  # fmt: skip
        log.put(r.CONTROL_STREAMS, generation_id, stopped)
        log.put(r.RUNS_INBOX, run, RunsInbox(event_id="e", body=t.Due(deadline_at_ms=1, live_s=1)))
        reply = EdgeReply(event_id="e", request_id=request_id, body=t.Limits(limits=()))
        log.put(r.EDGE_REPLIES, request_id, reply)
    found = log.life_of(MINE)
    assert names(found) == ["Submit", "Start", "StepRequest", "StopOrder", "Due", "Limits"]
    assert {moment.fields.get("generation_id", MINE) for moment in found} == {MINE}
    assert found[3].fields["reason"] == "user"


def test_a_record_that_only_its_key_ties_to_the_generation() -> None:
    log = Log()
    for generation_id in (MINE, OTHER):
        scored = t.ModerationInbox(event_id="e", body=t.TextEnded(epoch=1, windows=2))
        log.put(r.MODERATION_INBOX, generation_id, scored)
    assert names(log.life_of(MINE)) == ["TextEnded"]


def test_a_refusal_names_only_the_request() -> None:
    log = Log()
    log.put(r.ACCOUNTS_INBOX, "usr_1", submit(MINE, "req1", "run1"))
    refused = t.Refused(code=t.Code.QUOTA_EXHAUSTED, retryable=False)
    for request_id in ("req1", "req2"):
        reply = EdgeReply(event_id="e", request_id=request_id, body=refused)
        log.put(r.EDGE_REPLIES, request_id, reply)
    found = log.life_of(MINE)
    assert names(found) == ["Submit", "Refused"]
    assert "code quota_exhausted" in lines(found)[2]


def test_heartbeats_that_own_it_belong() -> None:
    log = Log()
    owned = (t.OwnedEpoch(generation_id=MINE, epoch=1, output_tokens=2),)
    beat = t.Heartbeat(pool="scripted", beat=1, owned=owned, slots=4)
    log.put(r.WORKERS_INBOX, "scripted-0/1", t.WorkersInbox(event_id="e", body=beat))
    idle = msgspec.structs.replace(beat, owned=())
    log.put(r.WORKERS_INBOX, "scripted-0/1", t.WorkersInbox(event_id="e", body=idle))
    assert names(log.life_of(MINE)) == ["Heartbeat"]


def test_no_private_text_comes_out() -> None:
    log = Log()
    log.put(r.ACCOUNTS_INBOX, "usr_1", submit(MINE, "req1", "run1"))
    window = t.TextWindow(
        event_id="e", generation_id=MINE, epoch=1, window=0, offset=0, text=CANARY
    )
    log.put(r.MODERATION_WINDOWS, MINE, window)
    found = log.life_of(MINE)
    assert names(found) == ["Submit", "TextWindow"]
    shown = msgspec.json.encode(found).decode() + "\n".join(lines(found))
    assert CANARY not in shown
    assert CANARY.encode().hex() not in shown


def test_a_dead_letter_is_told_and_rubbish_is_passed_over() -> None:
    log = Log()
    log.put(r.DEAD_LETTERS["runs"], "run1", start(MINE, "req1", "run1"))
    log.put(r.DEAD_LETTERS["runs"], "run1", b"rubbish")
    log.put(r.RUNS_INBOX, "run1", None)
    found = log.life_of(MINE)
    assert names(found) == ["Start"]
    assert found[0].what.startswith("Dead letter: ")


def test_one_millisecond_is_told_by_cause() -> None:
    log = Log()
    log.put(PAID_LANE, "run1", step(MINE, "run1"))
    log.put(r.RUNS_INBOX, "run1", start(MINE, "req1", "run1"), at_once=True)
    log.put(r.ACCOUNTS_INBOX, "usr_1", submit(MINE, "req1", "run1"), at_once=True)
    assert names(log.life_of(MINE)) == ["Submit", "Start", "StepRequest"]


def test_a_partition_is_never_told_against_its_own_order() -> None:
    log = Log()
    closed = t.Closed(generation_id=MINE, epoch=2, partial=False, code_points=1)
    log.put(r.RUNS_INBOX, "run1", RunsInbox(event_id="e", body=closed))
    log.put(r.RUNS_INBOX, "run1", start(MINE, "req1", "run1"), at_once=True)
    log.put(r.ACCOUNTS_INBOX, "usr_1", submit(MINE, "req1", "run1"), at_once=True)
    assert names(log.life_of(MINE)) == ["Submit", "Closed", "Start"]


def test_every_topic_is_read_but_a_machines_state() -> None:
    read = {*first_topics(), *rest_topics()}
    assert set(r.TOPICS) - read == set(r.CHANGELOGS.values())


def test_the_table_counts_from_the_first_record() -> None:
    log = Log()
    log.put(r.ACCOUNTS_INBOX, "usr_1", submit(MINE, "req1", "run1"))
    log.put(r.RUNS_INBOX, "run1", start(MINE, "req1", "run1"))
    table = lines(log.life_of(MINE))
    assert table[0].startswith("ms after 1970-01-01 00:00:01.000+00:00")
    assert [line.split()[0] for line in table[1:]] == ["0", "1"]
    assert "accounts admitted the generation" in table[2]


def test_an_ids_time() -> None:
    assert made_at_ms("gen_00000000010000000000000000") == 1
    for wrong in ("msg_00000000010000000000000000", "gen_x", "gen_", ""):
        with pytest.raises(Exception, match="not a generation's id"):
            made_at_ms(wrong)
