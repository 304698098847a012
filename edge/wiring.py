"""Puts the real parts of an edge together. Owns the order of making and closing, decides nothing."""

import asyncio
import os
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

import msgspec
from prometheus_client import REGISTRY

from connectors.log import LogProducer, LogReader
from connectors.redis.calls import Calls
from connectors.redis.push import PushConnection
from connectors.redis.reader import StreamReader
from connectors.redis.settings import RedisSettings
from connectors.store import Store
from connectors.store.keys import ULID_RANDOM_BYTES, mint_id
from edge.auth import Keys
from edge.body import Bodies
from edge.hub import Hub
from edge.metrics import Metrics
from edge.models import Models
from edge.parts import Mint, Parts
from edge.replies import Producer, Replies
from edge.settings import EdgeSettings, reply_partition
from topics.registry import EDGE_REPLIES
from topics.runtime.clock import elapsed_s, wall_ms
from topics.runtime.settings import KafkaSettings

THREADS = 2


class Wired(msgspec.Struct, frozen=True, kw_only=True):
    """The parts and what must be closed with them."""

    parts: Parts
    calls: Calls
    push: PushConnection
    producer: LogProducer
    reader: LogReader
    store: Store

    async def close(self, timeout_s: float) -> None:
        closing = asyncio.gather(
            self.parts.hub.close(),
            self.push.close(),
            self.reader.close(),
            self.calls.close(),
            self.store.close(),
            asyncio.to_thread(self.producer.close, timeout_s),
            return_exceptions=True,
        )
        await asyncio.wait({asyncio.ensure_future(closing)}, timeout=timeout_s + 1)
        self.parts.threads.shutdown(wait=False, cancel_futures=True)


def real_mint() -> Mint:
    return Mint(
        id=lambda prefix: mint_id(prefix, wall_ms(), os.urandom(ULID_RANDOM_BYTES)),
        event_id=lambda: str(uuid.uuid4()),
        now_s=elapsed_s,
        wall_ms=wall_ms,
    )


def make_parts(
    *,
    settings: EdgeSettings,
    secret: bytes,
    reply_partition: int,
    mint: Mint,
    metrics: Metrics,
    producer: Producer,
    log: StreamReader,
    store: Store,
    scripted: bool,
    threads: Executor | None = None,
) -> Parts:
    """The edge over any log, Redis and store. The hub still needs its push connection."""
    threads = threads or ThreadPoolExecutor(THREADS, thread_name_prefix="edge-long")
    keys = Keys(
        store,
        secret,
        mint.now_s,
        settings.key_cache_s,
        settings.key_stale_s_max,
        settings.keys_cached_max,
    )
    bodies = Bodies(
        settings.body_bytes_max, settings.bodies_bytes_total_max, settings.body_wait_s_max
    )
    return Parts(
        settings=settings,
        secret=secret,
        reply_partition=reply_partition,
        mint=mint,
        metrics=metrics,
        threads=threads,
        keys=keys,
        bodies=bodies,
        models=Models(settings, threads, scripted),
        replies=Replies(producer, settings.waiting_max, settings.resend_ms, metrics, mint.now_s),
        hub=Hub(settings, log, store, metrics, mint.now_s),
        log=log,
        store=store,
    )


def wire(
    *,
    settings: EdgeSettings,
    secret: bytes,
    kafka: KafkaSettings,
    redis: RedisSettings,
    calls: Calls,
    store: Store,
    name: str,
    scripted: bool,
    fatal: Callable[[str], None],
) -> Wired:
    """The edge over the real log, Redis and store; its push connection is started.

    Raises:
        SettingsError: a reply partition that does not exist.
    """
    partition = reply_partition(settings, name, EDGE_REPLIES.ring.partitions(kafka.local))
    loop = asyncio.get_running_loop()
    producer = LogProducer(kafka.bootstrap, kafka.local, loop, fatal)
    parts = make_parts(
        settings=settings,
        secret=secret,
        reply_partition=partition,
        mint=real_mint(),
        metrics=Metrics(REGISTRY),
        producer=producer,
        log=StreamReader(calls),
        store=store,
        scripted=scripted,
    )
    push = PushConnection(redis, parts.hub.deliver, parts.hub.gap)
    parts.hub.bind(push)
    push.start()
    reader = LogReader.assigned(
        kafka.bootstrap, loop, EDGE_REPLIES, partition, parts.replies.deliver
    )
    return Wired(parts=parts, calls=calls, push=push, producer=producer, reader=reader, store=store)
