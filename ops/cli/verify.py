"""`milena verify`: folds the log again and holds it up to what the machines recorded.

Owns the words of the verdict. Exit status 0: proven. 1: something differs, and the first difference is
shown with its place and both values. 2: it cannot be judged, with the reason.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
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
    from ops.verify.findings import Difference
    from ops.verify.prove import MachineProof, Proof

From = Annotated[
    str, typer.Option("--from", metavar="TIME", help="UTC, 2026-12-01T10:00 or epoch milliseconds.")
]
To = Annotated[
    str, typer.Option("--to", metavar="TIME", help="End of the span; the present if left out.")
]
Which = Annotated[
    list[str] | None,
    typer.Option("--machine", metavar="NAME", help="Only this machine; may be repeated."),
]
HELP = "Prove from the log that no decision was lost: fold(log) = table = counters = usage facts."


def register(app: typer.Typer) -> None:
    """Adds the command to the program."""
    app.command(help=HELP)(verify)


def verify(from_: From = "", to: To = "", machine: Which = None, as_json: AsJson = False) -> None:
    """Runs while the stack does. What it finds is bound to this environment's settings."""
    from confluent_kafka import KafkaException

    from ops.cli import environment
    from ops.cli.topics_broker import Broker
    from ops.verify.findings import Unjudged
    from ops.verify.prove import FOREVER_MS, Span, prove
    from ops.verify.source import BrokerSource
    from processors.machines import MACHINES

    asked = machine or [*MACHINES]
    unknown = [name for name in asked if name not in MACHINES]
    if unknown:
        raise CommandError(
            f"there is no machine {unknown[0]}: choose from {', '.join(MACHINES)}",
            "milena verify --help",
            ExitCode.BAD_SETTING,
        )
    span = Span(at_ms(from_) if from_ else None, at_ms(to) if to else FOREVER_MS)
    env = environment.filled(os.environ)
    kafka = environment.kafka(os.environ)
    chosen = [make(env) for name, make in MACHINES.items() if name in asked]
    Broker(kafka.bootstrap, kafka.local).listed()
    try:
        with working("reading the log") as say, BrokerSource(kafka.bootstrap) as source:
            proof = prove(source, chosen, span, local=kafka.local, say=say)
    except Unjudged as error:
        raise CommandError(f"cannot be judged: {error}", "", ExitCode.BAD_SETTING) from error
    except KafkaException as error:
        raise unreachable("Kafka", kafka.bootstrap) from error
    result(document(proof), lines(proof), as_json=as_json)
    for remark in remarks(proof):
        note(remark)
    if not proof.proven:
        raise typer.Exit(ExitCode.FAILED)


def at_ms(text: str) -> int:
    """A time as a person writes it, in epoch milliseconds; without an offset it is UTC.

    Raises:
        CommandError: it is no time.
    """
    if text.isdigit():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise CommandError(
            f"{text} is no time", "milena verify --from 2026-12-01T10:00", ExitCode.BAD_SETTING
        ) from error
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000)


def document(proof: Proof) -> dict[str, Any]:
    """The proof for programs."""
    made: dict[str, Any] = msgspec.to_builtins(proof)
    return {"proven": proof.proven, **made}


def lines(proof: Proof) -> list[str]:
    """The proof as a table, and each difference below it."""
    rows: list[tuple[str, ...]] = [
        ("machine", "from", "events", "keys", "states equal", "outputs", "found", "dead letters")
    ]
    rows += [_row(one) for one in proof.machines]
    shown = columns(rows)
    if proof.generations:
        sums = ", ".join(f"{leg} {count}" for leg, count in proof.tokens.items())
        shown.append(f"output tokens of {proof.generations} generations: {sums}")
    for difference in proof.differences:
        shown += ["", *_difference(difference)]
    if proof.count > len(proof.differences):
        shown.append(f"and {proof.count - len(proof.differences)} more")
    verdict = "proven: fold(log) = table = counters = usage facts"
    if not proof.proven:
        verdict = f"NOT proven: {proof.count} differences"
    return [*shown, "", f"{verdict} ({proof.records} records in {proof.seconds} s)"]


def remarks(proof: Proof) -> list[str]:
    """What the proof does not cover, exactly."""
    told = [
        f"{one.machine}: events before {moment(one.cut_ms)} are gone; {one.tally.adopted} keys were "
        f"folded from the state recorded then, of {one.tally.unproven} nothing is proven"
        for one in proof.machines
        if one.cut_ms is not None
    ]
    told += [
        f"{one.machine}: its inbox was re-created; {one.tally.adopted} keys were folded from the state "
        f"recorded before, of {one.tally.unproven} nothing is proven"
        for one in proof.machines
        if one.recreated
    ]
    if proof.outputs_cut:
        told.append(f"{proof.outputs_cut} outputs are older than what their topics keep")
    return told


def moment(ms: int) -> str:
    """Epoch milliseconds as UTC."""
    return datetime.fromtimestamp(ms / 1_000, UTC).isoformat(" ", "milliseconds")


def _row(one: MachineProof) -> tuple[str, ...]:
    tally = one.tally
    since = "the first event" if one.cut_ms is None else moment(one.cut_ms)
    counts = (tally.events, tally.keys, tally.equal, one.outputs, one.outputs_found)
    return (one.machine, since, *map(str, counts), str(tally.dead_letters))


def _difference(found: Difference) -> list[str]:
    where = (
        f"{found.topic} partition {found.partition} offset {found.offset}" if found.topic else ""
    )
    return [
        f"{found.check.value} of {found.machine}: key {found.key} {where}".rstrip(),
        f"  field  {found.field}",
        f"  log    {found.log}",
        f"  found  {found.found}",
    ]
