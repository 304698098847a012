"""Whether a generation can be served now: asked of the parts that would serve it, never assumed.

Owns the probes and what they found. Every probe is an ordinary question of a reserved user, and
changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from connectors.errors import RedisAway, RedisRefused, StoreUnavailable, Unfit
from edge.errors import ApiError
from edge.parts import Parts
from edge.replies import Unanswered
from edge.status import within
from schemas.generated.types import AccountsInbox, Query, RunsInbox, Tier
from topics.partition import partition_of
from topics.registry import ACCOUNTS_INBOX, RUNS_INBOX
from topics.topic import Topic

PROBE_S: Final = 3.0
ANSWER_MS_MAX: Final = 2_000
STALE_S_MAX: Final = 10.0
PROBES_AT_ONCE: Final = 8
NOBODY: Final = "usr_00000000000000000000000000"
NOTHING: Final = "gen_00000000000000000000000000"

CheckRedis = Callable[[], Awaitable[str]]
"""connectors.redis.policy.check_policy, bound to its calls."""


class Readiness:
    """`missing` is read from any thread; everything else belongs to the loop."""

    def __init__(self, parts: Parts, local: bool, log_failed: Callable[[], str | None]) -> None:
        self._parts = parts
        self._log_failed = log_failed
        self._targets = [
            *_targets("accounts", ACCOUNTS_INBOX, local),
            *_targets("runs", RUNS_INBOX, local),
        ]
        self._answered_at_s: dict[str, float] = {}
        self._redis: str | None = "not checked yet"
        self._store: str | None = "not checked yet"
        self._turn = 0
        self._draining = False

    def drain(self) -> None:
        self._draining = True

    def missing(self) -> Mapping[str, str]:
        """Name of a part -> what is wrong with it; empty means ready."""
        found: dict[str, str] = {}
        if self._draining:
            found["edge"] = "draining"
        if not self._parts.hub.connected:
            found["push"] = "no news of generations arrive from Redis"
        reasons = {"redis": self._redis, "store": self._store, "replies": self._log_failed()}
        found.update({name: reason for name, reason in reasons.items() if reason is not None})
        now_s = self._parts.mint.now_s()
        for target in self._targets:
            at_s = self._answered_at_s.get(target.name)
            if at_s is None or now_s - at_s > self._stale_s:
                found[target.name] = "does not answer on the log"
        return found

    async def run(self, check_redis: CheckRedis) -> None:
        """Asks all parts in turn until cancelled."""
        while True:
            await asyncio.gather(self._ask_redis(check_redis), self._ask_store(), self._ask_some())
            await asyncio.sleep(PROBE_S if not self.missing() else PROBE_S / 6)

    @property
    def _stale_s(self) -> float:
        rounds = -(-len(self._targets) // PROBES_AT_ONCE)
        return rounds * (PROBE_S + ANSWER_MS_MAX / 1_000) + STALE_S_MAX

    async def _ask_redis(self, check: CheckRedis) -> None:
        try:
            await check()
        except RedisAway:
            self._redis = "does not answer"
        except (RedisRefused, Unfit) as error:
            self._redis = str(error)
        else:
            self._redis = None

    async def _ask_store(self) -> None:
        try:
            await within(self._parts, self._parts.store.payload(NOTHING))
        except StoreUnavailable:
            self._store = "does not answer"
        else:
            self._store = None

    async def _ask_some(self) -> None:
        """The next few partitions of the machines; all of them where there are few."""
        count = len(self._targets)
        some = [
            self._targets[(self._turn + at) % count] for at in range(min(PROBES_AT_ONCE, count))
        ]
        self._turn = (self._turn + len(some)) % count
        await asyncio.gather(*(self._ask(target) for target in some))

    async def _ask(self, target: "_Target") -> None:
        request_id = self._parts.mint.id("req")
        query = Query(
            request_id=request_id,
            reply_partition=self._parts.reply_partition,
            tier=Tier.OPERATOR,
            user_id=target.user_id,
            generation_id=target.generation_id,
        )
        envelope = AccountsInbox if target.generation_id is None else RunsInbox
        question = envelope(event_id=self._parts.mint.event_id(), body=query)
        try:
            await self._parts.replies.ask(
                target.topic, target.key, question, request_id, ANSWER_MS_MAX, "probe"
            )
        except (Unanswered, ApiError):
            return
        self._answered_at_s[target.name] = self._parts.mint.now_s()


class _Target(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of one machine, reached by a key that lives in it."""

    name: str
    topic: Topic
    key: str
    user_id: str
    generation_id: str | None


def _targets(machine: str, topic: Topic, local: bool) -> list[_Target]:
    partitions = topic.ring.partitions(local)
    found: dict[int, _Target] = {}
    number = 0
    while len(found) < partitions:
        key = f"{NOBODY}.{number}" if machine == "accounts" else f"run_probe.{number}"
        partition = partition_of(key, partitions)
        number += 1
        if partition not in found:
            found[partition] = _Target(
                name=f"{machine}/{partition}",
                topic=topic,
                key=key,
                user_id=key if machine == "accounts" else NOBODY,
                generation_id=None if machine == "accounts" else NOTHING,
            )
    return [found[partition] for partition in sorted(found)]
