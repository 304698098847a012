"""What a person, or a program, sees of a start: a live table, plain lines, or JSON lines.

Only this file writes to the terminal while a stack runs.
"""

from __future__ import annotations

import sys
import time
from typing import Protocol, TextIO

import msgspec
from rich.console import Console
from rich.live import Live
from rich.table import Table

from ops.stack.part import Report, State

STYLES = {
    State.READY: "green",
    State.DONE: "green",
    State.STARTING: "yellow",
    State.BACKING_OFF: "red",
    State.FAILED: "bold red",
}
REFRESH_HZ = 5


class Show(Protocol):
    """Where the news of a start go."""

    def say(self, text: str) -> None: ...

    def progress(self, name: str, words: str) -> None: ...

    def report(self, report: Report) -> None: ...

    def settled(self) -> None:
        """The start is over, one way or another: from here on only changes are news."""


def sentence(report: Report) -> str | None:
    """One line for a change worth a line, else None."""
    name = f"{report.name:<16}"
    if report.state is State.READY and not report.ready:
        return f"{name} does not answer: {report.note}"
    if report.state is State.READY:
        where = f", port {report.port}" if report.port else ""
        again = f", restart {report.restarts}" if report.restarts else ""
        return f"{name} ready after {report.took_s or 0:.1f} s (pid {report.pid}{where}{again})"
    if report.state is State.DONE:
        return f"{name} done in {report.took_s or 0:.1f} s"
    if report.state in (State.BACKING_OFF, State.FAILED):
        return f"{name} {report.note}"
    return None


class Lines:
    """Plain lines, for logs and pipes."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def say(self, text: str) -> None:
        print(text, file=self._out, flush=True)

    def progress(self, name: str, words: str) -> None:
        self.say(f"{name:<16} {words}")

    def report(self, report: Report) -> None:
        text = sentence(report)
        if text is not None:
            self.say(text)

    def settled(self) -> None:
        """Lines need no end."""


class JsonLines:
    """One JSON object a line: `{"said"}`, `{"progress", "words"}` or `{"part": {…}}`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._settled = False

    def say(self, text: str) -> None:
        self._write({"said": text})

    def progress(self, name: str, words: str) -> None:
        self._write({"progress": name, "words": words})

    def report(self, report: Report) -> None:
        self._write({"part": report})

    def settled(self) -> None:
        if not self._settled:
            self._settled = True
            self._write({"settled": True})

    def _write(self, value: object) -> None:
        print(msgspec.json.encode(value).decode(), file=self._out, flush=True)


class LiveTable:
    """A table that moves while the stack starts, then lines for what changes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._reports: dict[str, Report] = {}
        self._fetching: dict[str, str] = {}
        self._live: Live | None = None
        self._settled = False

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def progress(self, name: str, words: str) -> None:
        self._fetching[name] = words
        self._begin()

    def report(self, report: Report) -> None:
        self._reports[report.name] = report
        if not self._settled:
            self._begin()
            return
        text = sentence(report)
        if text is not None:
            self.say(text)

    def settled(self) -> None:
        self._settled = True
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _begin(self) -> None:
        if self._live is None:
            self._live = Live(
                get_renderable=self._table,
                console=self._console,
                refresh_per_second=REFRESH_HZ,
            )
            self._live.start()

    def _table(self) -> Table:
        table = Table(box=None, show_header=False, pad_edge=False)
        for name, words in self._fetching.items():
            if name not in self._reports:
                table.add_row(name, words, "", style="cyan")
        for report in list(self._reports.values()):
            took = report.took_s
            if report.state is State.STARTING:
                took = time.time() - report.since
            seconds = f"{took:.1f} s" if took is not None else ""
            style = STYLES.get(report.state, "dim")
            table.add_row(report.name, str(report.state), seconds, report.note, style=style)
        return table


def choose(*, json: bool) -> Show:
    """What fits where the output goes."""
    if json:
        return JsonLines(sys.stdout)
    console = Console()
    return LiveTable(console) if console.is_terminal else Lines(sys.stdout)
