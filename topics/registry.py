"""Every topic, declared once. Owns all topic names: no other file may quote one."""

from typing import Final

from schemas.generated.types import Lane
from topics.models import POOLS
from topics.topic import DAY_MS, HOUR_MS, MINUTE_MS, Ring, Topic, TopicClass

USERS: Final = Ring("user", 4, 64)
RUNS: Final = Ring("conversation or request identity", 4, 64)
INCARNATIONS: Final = Ring("worker incarnation", 4, 64)
GENERATIONS: Final = Ring("generation", 4, 64)
EDGES: Final = Ring("edge instance", 16, 256)
LANES: Final = Ring("lane of a pool", 8, 512)
PLANS_RING: Final = Ring("plan version", 1, 1)

_INBOX_RETENTION_MS: Final = 7 * DAY_MS
_FACT_RETENTION_MS: Final = 30 * DAY_MS
_STATE_BYTES_MAX: Final = 4 * 1_048_576


def _inbox(
    name: str, ring: Ring, record: str, doc: str, producers: tuple[str, ...], machine: str
) -> Topic:
    return Topic(
        name=name,
        topic_class=TopicClass.INBOX,
        ring=ring,
        record=record,
        doc=doc,
        retention_ms=_INBOX_RETENTION_MS,
        producers=producers,
        consumers=(machine,),
    )


ACCOUNTS_INBOX: Final = _inbox(
    "accounts.inbox",
    USERS,
    "AccountsInbox",
    "All that concerns one user's account, in order.",
    ("edge", "processors.runs", "processors.admission"),
    "processors.admission",
)
RUNS_INBOX: Final = _inbox(
    "runs.inbox",
    RUNS,
    "RunsInbox",
    "All that concerns the runs of one conversation or request; its order decides everything.",
    (
        "edge",
        "inference",
        "connectors.closer",
        "processors.admission",
        "processors.workers",
        "processors.moderation",
        "processors.runs",
    ),
    "processors.runs",
)
WORKERS_INBOX: Final = _inbox(
    "workers.inbox",
    INCARNATIONS,
    "WorkersInbox",
    "Heartbeats and leases of one worker incarnation.",
    ("inference", "processors.runs", "processors.workers"),
    "processors.workers",
)
MODERATION_INBOX: Final = _inbox(
    "moderation.inbox",
    GENERATIONS,
    "ModerationInbox",
    "Scores of one generation's text windows; numbers, never text.",
    ("inference", "processors.moderation"),
    "processors.moderation",
)
METERING_INBOX: Final = _inbox(
    "metering.inbox",
    GENERATIONS,
    "MeteringInbox",
    "Computed epochs to be metered once.",
    ("processors.runs", "processors.metering"),
    "processors.metering",
)

EDGE_REPLIES: Final = Topic(
    name="edge.replies",
    topic_class=TopicClass.REPLY,
    ring=EDGES,
    record="EdgeReply",
    doc="Answers to waiting requests; the partition is the edge's.",
    retention_ms=10 * MINUTE_MS,
    producers=("processors.admission", "processors.runs"),
    consumers=("edge",),
)
CONTROL_WORKERS: Final = Topic(
    name="control.workers",
    topic_class=TopicClass.CONTROL,
    ring=INCARNATIONS,
    record="WorkerControl",
    doc="Orders to workers, keyed by incarnation; each worker assigns itself its partition.",
    retention_ms=HOUR_MS,
    producers=("processors.runs",),
    consumers=("inference",),
)
CONTROL_STREAMS: Final = Topic(
    name="control.streams",
    topic_class=TopicClass.CONTROL,
    ring=GENERATIONS,
    record="StreamControl",
    doc="Orders to the closer, keyed by generation.",
    retention_ms=DAY_MS,
    producers=("processors.runs",),
    consumers=("connectors.closer",),
)
TOOLS_REQUESTS: Final = Topic(
    name="tools.requests",
    topic_class=TopicClass.LANE,
    ring=LANES,
    record="ToolRequest",
    doc="Tool calls to make.",
    retention_ms=HOUR_MS,
    producers=("processors.runs",),
    consumers=("connectors",),
)
MODERATION_WINDOWS: Final = Topic(
    name="moderation.windows",
    topic_class=TopicClass.CONTENT,
    ring=GENERATIONS,
    record="TextWindow",
    doc="Text windows for the scorers: the one topic with private text. Never mirrored.",
    retention_ms=10 * MINUTE_MS,
    producers=("inference",),
    consumers=("processors.moderation",),
)


def _fact(name: str, ring: Ring, record: str, doc: str, producer: str) -> Topic:
    return Topic(
        name=name,
        topic_class=TopicClass.FACT,
        ring=ring,
        record=record,
        doc=doc,
        retention_ms=_FACT_RETENTION_MS,
        producers=(producer,),
        consumers=("ops",),
    )


FACTS_ADMISSION: Final = _fact(
    "facts.admission", USERS, "AdmissionFact", "Every admission decision.", "processors.admission"
)
FACTS_SETTLEMENT: Final = _fact(
    "facts.settlement",
    USERS,
    "SettlementFact",
    "Every later change of a hold.",
    "processors.settlement",
)
FACTS_RUNS: Final = _fact(
    "facts.runs", RUNS, "RunFact", "Every step in the life of a run.", "processors.runs"
)
FACTS_WORKERS: Final = _fact(
    "facts.workers",
    INCARNATIONS,
    "WorkerFact",
    "Workers that joined, left or lost their lease.",
    "processors.workers",
)
FACTS_MODERATION: Final = _fact(
    "facts.moderation",
    GENERATIONS,
    "ModerationFact",
    "Every moderation action.",
    "processors.moderation",
)
FACTS_USAGE: Final = _fact(
    "facts.usage",
    GENERATIONS,
    "UsageFact",
    "Tokens of each computed epoch, once.",
    "processors.metering",
)
PLANS: Final = Topic(
    name="plans",
    topic_class=TopicClass.CONFIG,
    ring=PLANS_RING,
    record="Plan",
    doc="Immutable plan versions, keyed by content hash.",
    retention_ms=-1,
    compacted=True,
    producers=("ops",),
    consumers=("processors.admission", "edge"),
)

_LANE_NAMES: Final = (Lane.RESUME, Lane.PAID, Lane.FREE, Lane.BACKGROUND)


def _lane(pool: str, lane: Lane) -> Topic:
    return Topic(
        name=f"inference.{pool}.{lane.value}",
        topic_class=TopicClass.LANE,
        ring=LANES,
        record="StepRequest",
        doc=f"Steps for the workers of pool {pool}, class {lane.value}.",
        retention_ms=HOUR_MS,
        producers=("processors.runs",),
        consumers=("inference",),
    )


LANE_TOPICS: Final[dict[tuple[str, Lane], Topic]] = {
    (pool, lane): _lane(pool, lane) for pool in POOLS for lane in _LANE_NAMES
}

MACHINE_INBOXES: Final[dict[str, Topic]] = {
    "accounts": ACCOUNTS_INBOX,
    "runs": RUNS_INBOX,
    "workers": WORKERS_INBOX,
    "moderation": MODERATION_INBOX,
    "metering": METERING_INBOX,
}


def _changelog(machine: str, inbox: Topic) -> Topic:
    # The name is Faust's: <app id>-<table name>-changelog.
    return Topic(
        name=f"milena-{machine}-state-changelog",
        topic_class=TopicClass.CHANGELOG,
        ring=inbox.ring,
        record=None,
        doc=f"State of the {machine} machine, one record a key.",
        retention_ms=-1,
        compacted=True,
        message_bytes_max=_STATE_BYTES_MAX,
        producers=inbox.consumers,
        consumers=inbox.consumers,
    )


def _dead_letters(inbox: Topic) -> Topic:
    return Topic(
        name=f"{inbox.name}.dlq",
        topic_class=TopicClass.DEAD_LETTER,
        ring=inbox.ring,
        record=None,
        doc=f"Records of {inbox.name} that could not be read or are not supported.",
        retention_ms=2 * inbox.retention_ms,
        message_bytes_max=inbox.message_bytes_max,
        producers=inbox.consumers,
        consumers=("ops",),
    )


CHANGELOGS: Final = {
    machine: _changelog(machine, inbox) for machine, inbox in MACHINE_INBOXES.items()
}
DEAD_LETTERS: Final = {machine: _dead_letters(inbox) for machine, inbox in MACHINE_INBOXES.items()}

TOPICS: Final[tuple[Topic, ...]] = (
    *MACHINE_INBOXES.values(),
    EDGE_REPLIES,
    CONTROL_WORKERS,
    CONTROL_STREAMS,
    TOOLS_REQUESTS,
    MODERATION_WINDOWS,
    FACTS_ADMISSION,
    FACTS_SETTLEMENT,
    FACTS_RUNS,
    FACTS_WORKERS,
    FACTS_MODERATION,
    FACTS_USAGE,
    PLANS,
    *LANE_TOPICS.values(),
    *CHANGELOGS.values(),
    *DEAD_LETTERS.values(),
)
BY_NAME: Final = {topic.name: topic for topic in TOPICS}
