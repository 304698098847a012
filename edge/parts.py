"""What the routes need, in one place: made by the process or by a test, passed down, never global."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor

import msgspec

from connectors.redis.reader import PutCode, StreamReader
from connectors.store import Store
from edge.auth import Keys
from edge.body import Bodies
from edge.hub import Hub
from edge.metrics import Metrics
from edge.models import Models
from edge.replies import Replies
from edge.settings import EdgeSettings


class Mint(msgspec.Struct, frozen=True):
    """Sources of ids and times, so that a test can know them."""

    id: Callable[[str], str]
    """A new `<prefix>_<ULID>`."""
    event_id: Callable[[], str]
    now_s: Callable[[], float]
    """Elapsed time; only grows."""
    wall_ms: Callable[[], int]
    """For rows that say when something was made; decides nothing."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The edge without its sockets."""

    settings: EdgeSettings
    secret: bytes
    reply_partition: int
    mint: Mint
    metrics: Metrics
    threads: Executor
    keys: Keys
    bodies: Bodies
    models: Models
    replies: Replies
    hub: Hub
    log: StreamReader
    store: Store
    writes: set["asyncio.Task[PutCode]"] = msgspec.field(default_factory=set)
    """Of texts, which nobody waits for any more; held so that they are not collected halfway."""
