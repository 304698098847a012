"""`milena replay gen_…`: the life of one generation, read back from the log.

Reads every topic from a minute before the generation's id was made to the present end. Shows ids,
counts, times and words of enums, never a prompt or an answer: they are not on the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from ops.cli.console import (
    AsJson,
    CommandError,
    ExitCode,
    columns,
    note,
    result,
    unreachable,
    working,
)

if TYPE_CHECKING:
    from ops.cli.replay_timeline import Moment

BEFORE_MS = 60_000
GenerationId = Annotated[str, typer.Argument(help="gen_…", metavar="GENERATION")]
Heartbeats = Annotated[
    bool, typer.Option("--heartbeats", help="Also the worker's beats, one every 2 s.")
]


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command()(replay)


def replay(
    generation_id: GenerationId, heartbeats: Heartbeats = False, as_json: AsJson = False
) -> None:
    """Print the timeline of one generation from the log: every record and what it did."""
    from confluent_kafka import KafkaException

    from ops.cli import environment
    from ops.cli.topics_broker import Broker

    from_ms = made_at_ms(generation_id) - BEFORE_MS
    kafka = environment.kafka(os.environ)
    bootstrap = kafka.bootstrap
    try:
        with working("reading the log") as say:
            Broker(bootstrap, kafka.local).listed()
            moments = _moments(bootstrap, generation_id, from_ms, say)
    except KafkaException as error:
        raise unreachable("Kafka", bootstrap) from error
    beats = sum(found.record == "Heartbeat" for found in moments)
    if not heartbeats:
        moments = [found for found in moments if found.record != "Heartbeat"]
    if not moments:
        raise CommandError(f"the log holds nothing of {generation_id}", "milena topics list")
    document = {"generation_id": generation_id, "moments": moments}
    result(document, lines(moments), as_json=as_json)
    if beats and not heartbeats and not as_json:
        note(f"{beats} heartbeats of its worker are left out (--heartbeats)")


def made_at_ms(generation_id: str) -> int:
    """When the id was made, epoch milliseconds.

    Raises:
        CommandError: it is no generation's id.
    """
    from ulid import ULID

    prefix, _, text = generation_id.partition("_")
    try:
        if prefix != "gen":
            raise ValueError(prefix)
        return ULID.from_str(text).milliseconds
    except ValueError as error:
        raise CommandError(
            f"{generation_id} is not a generation's id (gen_…)",
            "milena replay --help",
            ExitCode.BAD_SETTING,
        ) from error


def lines(moments: Sequence[Moment]) -> list[str]:
    """The timeline as a table; times are counted from its first record."""
    from ops.cli.replay_timeline import details

    first = moments[0].append_ms
    at = datetime.fromtimestamp(first / 1_000, UTC).isoformat(" ", "milliseconds")
    rows = [(f"ms after {at}", "topic", "partition", "offset", "record", "details", "what it did")]
    rows += [
        (
            str(found.append_ms - first),
            found.topic,
            str(found.partition),
            str(found.offset),
            found.record,
            details(found),
            found.what,
        )
        for found in moments
    ]
    return columns(rows)


def _moments(
    bootstrap: str, generation_id: str, from_ms: int, say: Callable[[str], None]
) -> list[Moment]:
    from ops.cli.replay_timeline import Follower, first_topics, in_order, rest_topics
    from ops.log_scan import records
    from topics.registry import BY_NAME

    follower = Follower(generation_id)
    found: list[Moment] = []
    count = 0
    for topics in (first_topics(), rest_topics()):
        for read in records(bootstrap, topics, from_ms):
            count += 1
            if count % 1_000 == 0:
                say(f"{count} records read, {len(found)} of {generation_id}")
            moment = follower.take(read, BY_NAME[read.topic])
            if moment is not None:
                found.append(moment)
    return in_order(found)
