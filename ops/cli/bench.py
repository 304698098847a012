"""`milena bench`: prints the benchmark as tables, or as JSON. Owns the printing only."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

METHOD = (
    "Scripted engine, 40 tokens 25 ms apart, no prefill; client, broker, store and all processes on this "
    "machine. Hops are differences of broker append times in whole milliseconds; the sum is the client's "
    "own clock. CPU is the operating system's account of each process."
)

DECISIONS = (
    "A backlog of whole lives of requests (admitted, consumed, settled) of 1,000 users with 40 retained "
    "requests each, folded by each process alone, from its readiness to its last state record in the "
    "changelog. Same fold, same broker, tables in memory; CPU is of the one process, all its threads."
)
LIVES_A_USER = 10


def bench(
    streams_a_slot: Annotated[int, typer.Option(help="Streams each client runs in turn.")] = 8,
    levels: Annotated[str, typer.Option(help="Concurrent streams, with commas.")] = "1,16,64",
    decisions: Annotated[
        bool, typer.Option(help="Decisions a second of accounts, beside stock Faust, instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure Milena's share of the time to first token per hop, and its CPU, on a fresh stack."""
    from ops.bench.run import run

    progress = Console(stderr=True)
    if decisions:
        _decisions(progress, as_json=as_json)
        return
    chosen = tuple(int(level) for level in levels.split(","))
    results = run(chosen, streams_a_slot, progress.print)
    if as_json:
        typer.echo(msgspec.json.encode({"method": METHOD, "levels": results}).decode())
        return
    console = Console()
    for level in results:
        title = (
            f"{level.concurrent} concurrent, {level.streams} streams in {level.wall_s} s, "
            f"{level.refusals} attempts refused and made again"
        )
        hops = Table("hop", "from → to", "p50 ms", "p95 ms", "p99 ms", title=title)
        for row in level.rows:
            hops.add_row(row.hop, row.what, f"{row.p50_ms}", f"{row.p95_ms}", f"{row.p99_ms}")
        console.print(hops)
    console.print(_cpu_table({level.concurrent: level.cpu_s_per_1000 for level in results}))
    console.print(METHOD)


def _decisions(progress: Console, *, as_json: bool) -> None:
    from ops.bench import decisions

    rates = decisions.run(LIVES_A_USER, progress.print)
    if as_json:
        typer.echo(msgspec.json.encode({"method": DECISIONS, "rates": rates}).decode())
        return
    shown = Table("process", "decisions", "a second", "a CPU second", "CPU, stock = 1")
    for rate in rates:
        ratio = rates[1].per_core_s / rate.per_core_s
        shown.add_row(
            rate.name,
            f"{rate.decisions}",
            f"{rate.per_s:.0f}",
            f"{rate.per_core_s:.0f}",
            f"{ratio:.2f}",
        )
    console = Console()
    console.print(shown)
    console.print(DECISIONS)


def _cpu_table(levels: dict[int, dict[str, float]]) -> Table:
    names = sorted({name for used in levels.values() for name in used})
    columns = [f"{level} streams" for level in levels]
    table = Table("part", *columns, title="CPU seconds per 1,000 streams")
    for name in names:
        table.add_row(name, *(f"{used.get(name, 0.0)}" for used in levels.values()))
    return table


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("bench")(bench)
