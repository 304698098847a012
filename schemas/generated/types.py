"""Types of every record, made from the schemas by `python -m schemas.codegen`.

Never edited by hand. Fields keep the names, order and defaults of the `.avsc` files; timestamps are
UTC epoch milliseconds.
"""

from enum import StrEnum

import msgspec


class Abandon(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Abandon"
):
    """The edge gave up on a request: nobody waits for its decision."""

    request_id: str
    generation_id: str | None = None


class Api(StrEnum):
    """Which product surface asked; settings differ by it."""

    UNKNOWN = "unknown"
    GENERATIONS = "generations"
    CONVERSATIONS = "conversations"


class Tier(StrEnum):
    """The caller's plan tier."""

    UNKNOWN = "unknown"
    FREE = "free"
    PAID = "paid"
    OPERATOR = "operator"


class Lane(StrEnum):
    """A class's topic within a pool; resume is served first."""

    UNKNOWN = "unknown"
    RESUME = "resume"
    PAID = "paid"
    FREE = "free"
    BACKGROUND = "background"


class OnDisconnect(StrEnum):
    """What happens to an answer nobody reads."""

    UNKNOWN = "unknown"
    CANCEL = "cancel"
    CONTINUE = "continue"


class OnWorkerLoss(StrEnum):
    """What happens to an answer whose worker died."""

    UNKNOWN = "unknown"
    FAIL = "fail"
    RESUME = "resume"


class Fallback(StrEnum):
    """What the caller wants when the asked model's limit is spent."""

    UNKNOWN = "unknown"
    ACCEPT = "accept"
    WAIT = "wait"


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, without any text: the part of a request that every machine hands on."""

    generation_id: str
    runs_key: str
    api: Api = Api.UNKNOWN
    tier: Tier = Tier.UNKNOWN
    lane: Lane = Lane.UNKNOWN
    model: str
    model_version: str
    pool: str
    input_tokens: int
    output_tokens_max: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    queue_wait_ms_max: int
    run_ms_max: int
    on_disconnect: OnDisconnect = OnDisconnect.UNKNOWN
    disconnect_grace_ms: int = 10000
    on_worker_loss: OnWorkerLoss = OnWorkerLoss.UNKNOWN
    fallback: Fallback = Fallback.UNKNOWN
    conversation_id: str | None = None
    user_message_id: str | None = None
    parent_id: str | None = None
    pointer_version: int | None = None


class Submit(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Submit"
):
    """Asks for admission of one generation."""

    request_id: str
    identity: bytes
    fingerprint: bytes
    reply_partition: int
    plan_version: str
    route_hint: int | None = None
    pressure_permille: int | None = None
    spec: Spec


class Consume(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Consume"
):
    """runs granted the claim: the hold is spent for good."""

    generation_id: str
    epoch: int


class ReleaseReason(StrEnum):
    """Why a hold was given back before its grant."""

    UNKNOWN = "unknown"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    QUEUE_DEADLINE = "queue_deadline"
    LATE_START = "late_start"
    STOPPED = "stopped"
    CAPACITY = "capacity"
    UNKNOWN_RUN = "unknown_run"
    ABANDONED = "abandoned"


class Release(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Release"
):
    """runs ended the generation before any grant: the hold is given back."""

    generation_id: str
    reason: ReleaseReason = ReleaseReason.UNKNOWN


class Terminal(StrEnum):
    """The one end of a generation."""

    UNKNOWN = "unknown"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    FAILED = "failed"
    MODERATED = "moderated"


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one or all epochs of a generation."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    estimated: bool = False


class Settle(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Settle"
):
    """runs ended a granted generation: its tokens are settled once, its slot is free."""

    generation_id: str
    epoch: int
    terminal: Terminal = Terminal.UNKNOWN
    usage: Usage


class Reassign(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Reassign"
):
    """runs moves a hold to the fallback model's budget."""

    generation_id: str
    model: str
    model_version: str
    pool: str


class Archived(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Archived"
):
    """The store holds an ended identity; it leaves the account."""

    identity: bytes


class EmergencyAdmitted(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.EmergencyAdmitted"
):
    """An edge admitted within its bounded allowance while accounts was away."""

    request_id: str
    user_id: str
    identity: bytes
    fingerprint: bytes
    reply_partition: int
    plan_version: str
    spec: Spec


class Credit(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Credit"
):
    """A customer credit, its own idempotent command."""

    credit_id: str
    messages: int
    reason: str


class Phase(StrEnum):
    """Where a run is."""

    UNKNOWN = "unknown"
    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"
    CLOSED = "closed"


class RunState(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.RunState"
):
    """runs' answer when accounts reconciles an old hold."""

    generation_id: str
    known: bool
    phase: Phase = Phase.UNKNOWN
    granted: bool


class Query(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Query"
):
    """Asks a machine for what it knows; answered on edge.replies, changes nothing."""

    request_id: str
    reply_partition: int
    tier: Tier = Tier.UNKNOWN
    user_id: str
    generation_id: str | None = None


class Due(msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Due"):
    """A deadline of the key passed; appended by the machine's own shell. Early ones re-arm; all are harmless twice."""  # noqa: E501

    deadline_at_ms: int
    live_s: int


class Upgraded(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Upgraded"
):
    """From this record on a newer fold version decides this partition; appended by the machine's own shell, once a partition."""  # noqa: E501

    rules: int


class AccountsInbox(msgspec.Struct, frozen=True, kw_only=True):
    """The only input of the accounts machine, keyed by user."""

    event_id: str
    body: Submit | Consume | Release | Settle | Abandon | Reassign | Archived | EmergencyAdmitted | Credit | RunState | Query | Due | Upgraded


class AdmissionKind(StrEnum):
    """What an admission fact tells."""

    UNKNOWN = "unknown"
    ADMITTED = "admitted"
    REFUSED = "refused"
    REPEATED = "repeated"
    CONFLICT = "conflict"


class Code(StrEnum):
    """Reason codes of refusals and failed ends, as in the HTTP error catalogue."""

    UNKNOWN = "unknown"
    INVALID_REQUEST = "invalid_request"
    UNAUTHORIZED = "unauthorized"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    IDEMPOTENCY_CONFLICT = "idempotency_conflict"
    GENERATION_IN_PROGRESS = "generation_in_progress"
    RESULT_UNAVAILABLE = "result_unavailable"
    QUOTA_EXHAUSTED = "quota_exhausted"
    RATE_LIMITED = "rate_limited"
    CONCURRENCY_LIMITED = "concurrency_limited"
    CAPACITY_EXHAUSTED = "capacity_exhausted"
    QUOTA_SERVICE_UNAVAILABLE = "quota_service_unavailable"
    MODEL_BACKEND_ERROR = "model_backend_error"
    GENERATION_TIMEOUT = "generation_timeout"
    CONTENT_REFUSED = "content_refused"
    CONTENT_MODERATED = "content_moderated"
    CONVERSATION_DELETED = "conversation_deleted"
    NOT_FOUND = "not_found"
    INTERNAL = "internal"


class AdmissionFact(msgspec.Struct, frozen=True, kw_only=True):
    """One admission decision."""

    event_id: str
    kind: AdmissionKind = AdmissionKind.UNKNOWN
    at: int
    user_id: str
    request_id: str
    generation_id: str
    tier: Tier = Tier.UNKNOWN
    api: Api = Api.UNKNOWN
    model: str
    code: Code | None = None
    window_start_at: int | None = None
    limit: int
    used: int
    held: int
    slots_used: int
    plan_version: str
    emergency: bool = False


class Claim(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Claim"
):
    """A worker wishes to compute an epoch."""

    generation_id: str
    epoch: int
    incarnation: str


class ClaimRefusal(StrEnum):
    """Why a claim was refused."""

    UNKNOWN = "unknown"
    UNKNOWN_RUN = "unknown_run"
    NOT_CURRENT = "not_current"
    STOPPED = "stopped"
    PAST_DEADLINE = "past_deadline"
    ENDED = "ended"


class ClaimRefused(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.ClaimRefused"
):
    """The claim lost: compute must not start."""

    reason: ClaimRefusal = ClaimRefusal.UNKNOWN


class Closed(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Closed"
):
    """The closer appended the only terminal and completed the row."""

    generation_id: str
    epoch: int
    partial: bool
    code_points: int


class StopReason(StrEnum):
    """Why a run is told to stop."""

    UNKNOWN = "unknown"
    USER = "user"
    DISCONNECT = "disconnect"
    DEADLINE = "deadline"
    ABANDONED = "abandoned"
    DELETED = "deleted"


class Current(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Current"
):
    """The probing worker's epoch is current: go on from the text."""

    stop: StopReason | None = None


class Delete(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Delete"
):
    """The conversation is flagged deleted: what runs is stopped, new sends are refused."""

    conversation_id: str


class LimitKind(StrEnum):
    """What kind of bound a limit is."""

    UNKNOWN = "unknown"
    FIXED_WINDOW = "fixed_window"
    ROLLING_BUDGET = "rolling_budget"
    BURST = "burst"
    SLOTS = "slots"


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """One limit of a caller as it stands after a decision."""

    name: str
    kind: LimitKind = LimitKind.UNKNOWN
    limit: int
    used: int
    held: int
    remaining: int
    window_s: int | None = None
    reset_at_ms: int | None = None


class Refused(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Refused"
):
    """The request was not admitted; nothing moved in any counter."""

    code: Code = Code.UNKNOWN
    retryable: bool
    retry_after_ms: int | None = None
    limit: Limit | None = None
    generation_id: str | None = None
    status: str | None = None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something the caller should be told beside the answer."""

    code: str
    reset_at_ms: int | None = None


class Queued(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Queued"
):
    """The request is admitted and dispatched."""

    generation_id: str
    admitted_at_ms: int
    model: str
    model_version: str
    queue_deadline_at_ms: int
    position: int | None = None
    step_partition: int | None = None
    step_offset: int | None = None
    limits: tuple[Limit, ...]
    notice: Notice | None = None


class Repeated(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Repeated"
):
    """The key is known: its generation and state."""

    generation_id: str
    same: bool
    running: bool
    terminal: Terminal | None = None


class Hold(StrEnum):
    """State of a reservation: held, then consumed or released, once."""

    UNKNOWN = "unknown"
    HELD = "held"
    CONSUMED = "consumed"
    RELEASED = "released"


class Status(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Status"
):
    """What runs knows of one generation."""

    generation_id: str
    known: bool
    phase: Phase = Phase.UNKNOWN
    stop_requested: bool
    hold: Hold = Hold.UNKNOWN
    terminal: Terminal | None = None
    code: Code | None = None
    model: str
    epoch: int
    created_at_ms: int
    usage: Usage | None = None


class Limits(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Limits"
):
    """The caller's limits."""

    limits: tuple[Limit, ...]


class EdgeReply(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's answer to one waiting request of one edge."""

    event_id: str
    request_id: str
    body: Refused | Queued | Repeated | Status | Limits


class FinishReason(StrEnum):
    """How a worker's computation of one epoch ended."""

    UNKNOWN = "unknown"
    STOP = "stop"
    LENGTH = "length"
    STOPPED = "stopped"
    FAILED = "failed"
    TOO_LONG = "too_long"
    BACKEND_DEAD = "backend_dead"


class Ended(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Ended"
):
    """The run's one end: the closer appends the terminal and completes the row."""

    terminal: Terminal = Terminal.UNKNOWN
    finish_reason: FinishReason = FinishReason.UNKNOWN
    code: Code | None = None
    usage: Usage
    hold: Hold = Hold.UNKNOWN
    closing_epoch: int
    text_epoch: int
    keep_row: bool
    user_id: str
    runs_key: str
    model: str
    model_version: str
    admitted_at_ms: int
    ended_at_ms: int
    conversation_id: str | None = None


class Fenced(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Fenced"
):
    """The probing worker's epoch is over: stop at once."""

    epoch: int


class Finished(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Finished"
):
    """A worker ended an epoch; its final row is in the store."""

    generation_id: str
    epoch: int
    incarnation: str
    reason: FinishReason = FinishReason.UNKNOWN
    usage: Usage
    code_points: int
    started_at_ms: int


class Freed(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Freed"
):
    """The epoch needs no lease any more."""

    generation_id: str
    epoch: int


class Granted(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Granted"
):
    """The claim won: compute starts now."""

    admitted_at_ms: int
    run_deadline_at_ms: int


class OwnedEpoch(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch a worker computes now."""

    generation_id: str
    epoch: int
    output_tokens: int


class Heartbeat(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Heartbeat"
):
    """A worker lives; sent every 2 s."""

    pool: str
    beat: int
    owned: tuple[OwnedEpoch, ...]
    slots: int


class LeaseExpired(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.LeaseExpired"
):
    """The workers machine missed an incarnation's heartbeats; this epoch has no owner any more."""

    generation_id: str
    epoch: int
    incarnation: str
    output_tokens: int


class Left(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Left"
):
    """A worker drained and goes away by itself."""

    beat: int


class Used(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Used"
):
    """One computing epoch ended, won or void."""

    generation_id: str
    epoch: int
    user_id: str
    tier: Tier = Tier.UNKNOWN
    api: Api = Api.UNKNOWN
    model: str
    model_version: str
    pool: str
    incarnation: str
    reason: FinishReason = FinishReason.UNKNOWN
    void: bool
    usage: Usage
    granted_at_ms: int
    ended_at_ms: int


class MeteringInbox(msgspec.Struct, frozen=True, kw_only=True):
    """The only input of the metering machine, keyed by generation."""

    event_id: str
    body: Used | Due | Upgraded


class ModerationKind(StrEnum):
    """What a moderation fact tells."""

    UNKNOWN = "unknown"
    PASSED = "passed"
    CUT = "cut"
    RETRACTED = "retracted"
    DEGRADED = "degraded"


class ModerationFact(msgspec.Struct, frozen=True, kw_only=True):
    """One moderation action."""

    event_id: str
    kind: ModerationKind = ModerationKind.UNKNOWN
    at: int
    generation_id: str
    category: str | None = None
    window: int | None = None
    classifier_version: str


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One category's score."""

    category: str
    permille: int


class Scored(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Scored"
):
    """A scorer judged one text window; scores only, never text."""

    epoch: int
    window: int
    scores: tuple[Score, ...]
    classifier_version: str


class TextEnded(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.TextEnded"
):
    """The epoch will send no further windows."""

    epoch: int
    windows: int


class ModerationInbox(msgspec.Struct, frozen=True, kw_only=True):
    """The only input of the moderation machine, keyed by generation."""

    event_id: str
    body: Scored | TextEnded | Due | Upgraded


class Open(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Open"
):
    """The whole control state of a stream: creates it, or restores it after a loss."""

    user_id: str
    runs_key: str
    admitted_at_ms: int
    status: str
    ttl_ms: int
    on_disconnect: OnDisconnect = OnDisconnect.UNKNOWN
    disconnect_grace_ms: int
    stop: StopReason | None = None
    released_to: int | None = None


class Owned(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Owned"
):
    """runs granted an epoch to this incarnation."""

    generation_id: str
    epoch: int
    runs_key: str


class Persisting(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Persisting"
):
    """A worker ended an epoch but the store is away; the text waits in its spool."""

    generation_id: str
    epoch: int
    incarnation: str


class PlanTier(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of a plan."""

    tier: Tier = Tier.UNKNOWN
    messages_max: int
    window_s: int
    slots_max: int


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One immutable version of the plans, keyed by its content hash."""

    event_id: str
    plan_version: str
    tiers: tuple[PlanTier, ...]


class Probe(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Probe"
):
    """A worker lost sight of the generation's control state and asks whether it is still current."""  # noqa: E501

    generation_id: str
    epoch: int
    incarnation: str


class Reassigned(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Reassigned"
):
    """accounts moved the hold; runs dispatches now."""

    generation_id: str
    notice: Notice


class Reconcile(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Reconcile"
):
    """accounts asks for the state of an old hold."""

    generation_id: str
    user_id: str


class ReleaseTo(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.ReleaseTo"
):
    """Text up to here passed moderation and may be shown."""

    released_to: int


class Restore(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Restore"
):
    """A deletion was undone in time."""

    conversation_id: str


class Retract(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Retract"
):
    """Moderation's verdict: what was shown must be replaced by a notice."""

    generation_id: str
    category: str


class Retracted(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Retracted"
):
    """What was shown must be replaced by a notice."""

    category: str
    closing_epoch: int


class RunKind(StrEnum):
    """What a run fact tells."""

    UNKNOWN = "unknown"
    QUEUED = "queued"
    REFUSED = "refused"
    GRANTED = "granted"
    STOP_REQUESTED = "stop_requested"
    LEASE_LOST = "lease_lost"
    ENDED = "ended"
    CLOSED = "closed"


class RunFact(msgspec.Struct, frozen=True, kw_only=True):
    """One step in the life of a run."""

    event_id: str
    kind: RunKind = RunKind.UNKNOWN
    at: int
    generation_id: str
    user_id: str
    tier: Tier = Tier.UNKNOWN
    api: Api = Api.UNKNOWN
    model: str
    model_version: str
    pool: str
    epoch: int
    incarnation: str | None = None
    terminal: Terminal | None = None
    code: Code | None = None
    finish_reason: FinishReason | None = None
    queue_ms: int | None = None
    run_ms: int | None = None


class Start(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Start"
):
    """accounts admitted the generation: its run begins."""

    request_id: str
    user_id: str
    reply_partition: int
    submitted_at_ms: int
    route_hint: int | None = None
    pressure_permille: int | None = None
    limits: tuple[Limit, ...]
    notice: Notice | None = None
    spec: Spec


class Stop(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.Stop"
):
    """The run must end: asked by a user, a policy or a deletion."""

    generation_id: str
    user_id: str
    reason: StopReason = StopReason.UNKNOWN
    request_id: str | None = None
    reply_partition: int | None = None


class ToolFinished(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.ToolFinished"
):
    """A tool call ended; its result is in the store."""

    generation_id: str
    epoch: int
    step: int
    outcome: str
    output_tokens: int


class RunsInbox(msgspec.Struct, frozen=True, kw_only=True):
    """The only input of the runs machine, keyed by conversation or request identity. Its order decides everything."""  # noqa: E501

    event_id: str
    body: Start | EmergencyAdmitted | Claim | Finished | Persisting | Stop | Retract | LeaseExpired | Probe | Closed | Abandon | Delete | Restore | Reassigned | Reconcile | ToolFinished | Query | Due | Upgraded


class SettlementKind(StrEnum):
    """What a settlement fact tells."""

    UNKNOWN = "unknown"
    CONSUMED = "consumed"
    RELEASED = "released"
    SETTLED = "settled"
    CREDITED = "credited"


class SettlementFact(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a hold after its admission."""

    event_id: str
    kind: SettlementKind = SettlementKind.UNKNOWN
    at: int
    user_id: str
    generation_id: str
    release_reason: ReleaseReason | None = None
    terminal: Terminal | None = None
    window_start_at: int | None = None
    limit: int
    used: int
    held: int
    slots_used: int
    usage: Usage | None = None


class StepRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One model call to compute, for the workers of one pool and lane, keyed like runs.inbox."""

    event_id: str
    user_id: str
    epoch: int
    step: int
    admitted_at_ms: int
    queue_deadline_at_ms: int
    spec: Spec


class StopOrder(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="-type", tag="milena.events.v1.StopOrder"
):
    """Stop within one step."""

    reason: StopReason = StopReason.UNKNOWN


class StreamControl(msgspec.Struct, frozen=True, kw_only=True):
    """An order to the closer about one generation's stream, keyed by generation."""

    event_id: str
    generation_id: str
    epoch: int
    number: int
    body: Open | StopOrder | ReleaseTo | Ended | Retracted


class TextWindow(msgspec.Struct, frozen=True, kw_only=True):
    """A span of text for the scorers: the one record that carries content."""

    event_id: str
    generation_id: str
    epoch: int
    window: int
    offset: int
    text: str


class ToolRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call to make, keyed by conversation."""

    event_id: str
    generation_id: str
    runs_key: str
    epoch: int
    step: int
    tool: str
    timeout_ms: int
    output_tokens_max: int


class UsageFact(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one computing epoch, once: the record billing and analysis build on."""

    event_id: str
    at: int
    generation_id: str
    epoch: int
    user_id: str
    tier: Tier = Tier.UNKNOWN
    api: Api = Api.UNKNOWN
    model: str
    model_version: str
    pool: str
    reason: FinishReason = FinishReason.UNKNOWN
    void: bool
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    estimated: bool
    run_ms: int


class WorkerControl(msgspec.Struct, frozen=True, kw_only=True):
    """An order to one worker about one generation in flight, keyed by incarnation."""

    event_id: str
    generation_id: str
    epoch: int
    number: int
    body: Granted | ClaimRefused | StopOrder | Current | Fenced


class WorkerKind(StrEnum):
    """What a worker fact tells."""

    UNKNOWN = "unknown"
    JOINED = "joined"
    LEFT = "left"
    LEASE_EXPIRED = "lease_expired"


class WorkerFact(msgspec.Struct, frozen=True, kw_only=True):
    """One change in a worker's life."""

    event_id: str
    kind: WorkerKind = WorkerKind.UNKNOWN
    at: int
    incarnation: str
    pool: str
    epochs_lost: int


class WorkersInbox(msgspec.Struct, frozen=True, kw_only=True):
    """The only input of the workers machine, keyed by worker incarnation."""

    event_id: str
    body: Heartbeat | Owned | Freed | Left | Due | Upgraded
