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


def bench(
    streams_a_slot: Annotated[int, typer.Option(help="Streams each client runs in turn.")] = 8,
    levels: Annotated[str, typer.Option(help="Concurrent streams, with commas.")] = "1,16,64",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure Milena's share of the time to first token per hop, and its CPU, on a fresh stack."""
    from ops.bench.run import run

    progress = Console(stderr=True)
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
