"""`milena topics list|apply|adopt|refold`: the broker's topics held up to the registry.

Applying creates and configures, and is harmless twice. It never deletes, and a partition count that
differs refuses everything: moving keys is never a side effect.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from ops.cli.console import AsJson, CommandError, Yes, columns, confirm, note, result, working
from ops.cli.topics_past import adopt, refold

if TYPE_CHECKING:
    from ops.cli.topics_broker import Broker
    from ops.cli.topics_plan import Found, Plan

VISIBLE_S_MAX = 15.0
LOOK_AGAIN_S = 0.1


def register(app: typer.Typer) -> None:
    """Adds the group to the program."""
    group = typer.Typer(help="Topics: the broker held up to the registry.", no_args_is_help=True)
    group.command("list")(list_)
    group.command()(apply)
    group.command()(adopt)
    group.command()(refold)
    app.add_typer(group, name="topics")


def list_(as_json: AsJson = False) -> None:
    """Show every declared topic and how the broker differs. Exit status 1 where it does."""
    from topics.registry import TOPICS

    broker, local = _broker()
    with working("asking the broker"):
        found = broker.found()
    plan = _plan(found, local)
    rows = [("topic", "class", "key", "partitions", "retention", "state")]
    states = _states(plan)
    for topic in TOPICS:
        count = topic.ring.partitions(local)
        hours = topic.retention_ms / 3_600_000
        kept = "compacted" if topic.compacted else f"{hours:.1f} h".replace(".0 h", " h")
        state = states.get(topic.name, "ok")
        rows.append((topic.name, topic.topic_class.value, topic.ring.name, str(count), kept, state))
    document = {"topics": [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]}
    result({**document, "unknown": plan.unknown}, columns(rows), as_json=as_json)
    if plan.unknown and not as_json:
        note(f"not declared here, left alone: {', '.join(plan.unknown)}")
    if not plan.empty:
        raise typer.Exit(1)


def apply(yes: Yes = False, as_json: AsJson = False) -> None:
    """Create what is missing and set what differs on the broker. Never deletes."""
    broker, local = _broker()
    with working("asking the broker"):
        plan = _plan(broker.found(), local)
    _refuse_mismatches(plan)
    done = {
        "created": [topic.name for topic in plan.create],
        "configured": [str(change) for change in plan.configure],
    }
    if plan.empty:
        result(done, ["nothing to do"], as_json=as_json)
        return
    lines = [f"create {t.name}, {t.ring.partitions(local)} partitions" for t in plan.create]
    lines += [f"set {change}" for change in plan.configure]
    if not yes:
        for line in lines:
            note(line)
        confirm("milena topics apply")
    with working(f"applying {len(lines)} changes"):
        broker.create(plan.create)
        broker.configure(plan.configure)
        _await_visible(broker, local)
    result(done, [f"done: {line}" for line in lines], as_json=as_json)


def _broker() -> tuple[Broker, bool]:
    from ops.cli import environment
    from ops.cli.topics_broker import Broker

    settings = environment.kafka(os.environ)
    return Broker(settings.bootstrap, settings.local), settings.local


def _plan(found: Mapping[str, Found], local: bool) -> Plan:
    from ops.cli.topics_plan import compare
    from topics.registry import TOPICS

    return compare(TOPICS, found, local)


def _states(plan: Plan) -> dict[str, str]:
    states = {topic.name: "missing" for topic in plan.create}
    for change in plan.configure:
        states[change.topic] = f"{change.name} is {change.found}, declared {change.expected}"
    for mismatch in plan.mismatches:
        states[mismatch.topic] = f"has {mismatch.found} {mismatch.what}, {mismatch.expected} wanted"
    return states


def _refuse_mismatches(plan: Plan) -> None:
    if plan.mismatches:
        raise CommandError(
            f"{'; '.join(str(mismatch) for mismatch in plan.mismatches)}. Nothing was changed: keys "
            "would move. MILENA_KAFKA_LOCAL chooses local or production counts; a local stack may "
            "start over in another MILENA_DATA",
            "milena topics list",
        )


def _await_visible(broker: Broker, local: bool) -> None:
    """The controller acknowledges before every broker shows it; whoever starts next must see it."""
    until = time.monotonic() + VISIBLE_S_MAX
    while not _plan(broker.found(), local).empty:
        if time.monotonic() > until:
            raise CommandError("the broker does not show the changes yet", "milena topics list")
        time.sleep(LOOK_AGAIN_S)
