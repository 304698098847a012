"""One cell as a picture: faults over time, above what was finished a second and what machines lagged. Pure.

Owns the drawing, as SVG that needs nothing from outside and follows the reader's light or dark. Every
mark carries its words as a title.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Final

import msgspec

from ops.drill.result import CellResult, Fault, Sample

WIDTH: Final = 920
LEFT: Final = 128
RIGHT: Final = 24
LANE: Final = 20
PANEL: Final = 96
GAP: Final = 40
TOP: Final = 30
GLYPH_PIXELS: Final = 6.8
"""Width of one character of a label, roughly: labels that would overlap are left to the titles."""
ALL: Final = "all"
SERIES: Final = ("accounts", "runs", "workers", "metering")
BEGINS: Final = ("SIGSTOP", "refuses", "cut", "answers held back", "full", "joins", "deleted")
"""Words of faults that last until they are taken back."""
RESTARTS: Final = ("kill -9", "SIGTERM")
"""Last until the part is back; a mark alone where it is not waited for."""
ENDS: Final = ("is back", "SIGCONT", "answers again", "has room", "is served again", "leaves")
STYLE: Final = """
.bg{fill:#fff}.t{fill:#1f2328;font:12px system-ui,sans-serif}.s{fill:#59636e;font:11px system-ui,sans-serif}
.l{fill:#1f2328;font:11px system-ui,sans-serif}
.grid{stroke:#d9dee3}.axis{stroke:#8c959f}.bar{fill:#7d8fa3}.struck{fill:#d1242f;opacity:.07}
.span{fill:#d1242f;opacity:.32}.mark{fill:#d1242f}.end{fill:#1a7f37}
.heal{stroke:#1a7f37;stroke-dasharray:4 3}
.line{fill:none;stroke-width:1.8}.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#1a7f37}.c3{stroke:#8250df}
.f0{fill:#0969da}.f1{fill:#bc4c00}.f2{fill:#1a7f37}.f3{fill:#8250df}
@media (prefers-color-scheme:dark){.bg{fill:#0d1117}.t,.l{fill:#e6edf3}.s{fill:#9198a1}.grid{stroke:#262c33}
.axis{stroke:#59636e}.bar{fill:#6e8199}.struck{fill:#ff7b72;opacity:.1}.span{fill:#ff7b72;opacity:.4}
.mark{fill:#ff7b72}.end{fill:#56d364}.heal{stroke:#56d364}.c0{stroke:#58a6ff}.c1{stroke:#f0883e}
.c2{stroke:#56d364}.c3{stroke:#bc8cff}.f0{fill:#58a6ff}.f1{fill:#f0883e}.f2{fill:#56d364}.f3{fill:#bc8cff}}
"""


class Span(msgspec.Struct, frozen=True):
    """A fault that lasts. Times are epoch milliseconds."""

    part: str
    what: str
    from_ms: int
    to_ms: int


def spans(faults: Sequence[Fault], healed_ms: int) -> list[Span]:
    """What lasts among the faults: until it is taken back, or until all was healed."""
    found = []
    for at, fault in enumerate(faults):
        ends = (
            one.at_ms for one in faults[at + 1 :] if one.part == fault.part and _ends(one, fault)
        )
        until_ms = next(ends, None)
        if fault.what.startswith(BEGINS):
            found.append(Span(fault.part, fault.what, fault.at_ms, until_ms or healed_ms))
        elif fault.what.startswith(RESTARTS) and until_ms is not None:
            found.append(Span(fault.part, fault.what, fault.at_ms, until_ms))
    return found


def _ends(one: Fault, begun: Fault) -> bool:
    """An end of its kind; whoever joined also goes by a kill."""
    return one.what in ENDS or (begun.what == "joins" and one.what.startswith(RESTARTS))


def picture(result: CellResult) -> str:
    """The whole SVG."""
    parts = [*dict.fromkeys(fault.part for fault in result.faults if fault.part != ALL)]
    lanes_end = TOP + max(1, len(parts)) * LANE
    finished, lag = lanes_end + GAP, lanes_end + GAP + PANEL + GAP
    height = lag + PANEL + 34
    scale = _Scale(result)
    drawn = [
        *_frame(result, scale, height, lag + PANEL),
        *_lanes(result, scale, parts),
        *_finished(result.samples, scale, finished),
        *_lag(result.samples, scale, lag),
    ]
    title = escape(f"{result.name}: faults, answers finished a second, records not committed")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{title}"><style>{STYLE}</style>'
        f'<rect class="bg" width="{WIDTH}" height="{height}" rx="6"/>{"".join(drawn)}</svg>\n'
    )


class _Scale:
    """Epoch milliseconds to pixels."""

    def __init__(self, result: CellResult) -> None:
        self.from_ms = result.began_ms
        last_ms = max((sample.at_ms for sample in result.samples), default=0)
        self.to_ms = max(result.healed_ms, last_ms, result.began_ms + 1_000)
        self._wide = WIDTH - LEFT - RIGHT

    def x(self, at_ms: int) -> float:
        share = (at_ms - self.from_ms) / (self.to_ms - self.from_ms)
        return round(LEFT + self._wide * min(1.0, max(0.0, share)), 1)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Places of round seconds."""
        whole_s = (self.to_ms - self.from_ms) / 1_000
        step = next(one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600) if whole_s / one <= 14)
        for second in range(0, int(whole_s) + 1, step):
            yield self.x(self.from_ms + second * 1_000), f"{second} s"


def _frame(result: CellResult, scale: _Scale, height: int, bottom: int) -> Iterator[str]:
    struck = [fault.at_ms for fault in result.faults if fault.part != ALL]
    if struck:
        left, right = scale.x(min(struck)), scale.x(result.healed_ms)
        wide = round(max(1.0, right - left), 1)
        yield f'<rect class="struck" x="{left}" y="{TOP}" width="{wide}" height="{bottom - TOP}"/>'
        at = min(right, WIDTH - RIGHT - 44)
        yield f'<text class="s" x="{at}" y="{TOP - 8}" text-anchor="middle">healed</text>'
        yield f'<line class="heal" x1="{right}" x2="{right}" y1="{TOP - 4}" y2="{bottom}"/>'
    for x, words in scale.ticks():
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="{TOP}" y2="{bottom}"/>'
        yield f'<text class="s" x="{x}" y="{height - 12}" text-anchor="middle">{words}</text>'


def _lanes(result: CellResult, scale: _Scale, parts: Sequence[str]) -> Iterator[str]:
    lasting = spans(result.faults, result.healed_ms)
    for lane, part in enumerate(parts):
        top = TOP + lane * LANE
        middle = top + LANE / 2
        name = _cut(part, 18)
        yield f'<text class="t" x="{LEFT - 10}" y="{middle + 4}" text-anchor="end">{escape(name)}</text>'
        yield f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top + LANE}" y2="{top + LANE}"/>'
        for span in lasting:
            if span.part == part:
                left, right = scale.x(span.from_ms), scale.x(span.to_ms)
                wide = round(max(2.0, right - left), 1)
                took = f"{span.what}, {(span.to_ms - span.from_ms) / 1_000:.1f} s"
                yield (
                    f'<rect class="span" x="{left}" y="{top + 4}" width="{wide}" height="{LANE - 8}" '
                    f'rx="2"><title>{escape(took)}</title></rect>'
                )
        yield from _marks([one for one in result.faults if one.part == part], scale, middle)


def _marks(faults: Sequence[Fault], scale: _Scale, middle: float) -> Iterator[str]:
    """A mark for each event, and its words where there is room up to the next mark."""
    places = [scale.x(fault.at_ms) for fault in faults]
    free_from = 0.0
    for at, (fault, x) in enumerate(zip(faults, places, strict=True)):
        ends = fault.what in ENDS
        second = (fault.at_ms - scale.from_ms) / 1_000
        words = escape(f"{second:.1f} s: {fault.what}")
        kind = "end" if ends else "mark"
        yield f'<circle class="{kind}" cx="{x}" cy="{middle}" r="4"><title>{words}</title></circle>'
        next_x = min((one for one in places[at + 1 :] if one > x), default=WIDTH - RIGHT + 20)
        wide = len(fault.what) * GLYPH_PIXELS + 12
        if x >= free_from and x + wide <= next_x - 4:
            label = escape(fault.what)
            yield f'<text class="l" x="{x + 8}" y="{middle + 4}">{label}</text>'
            free_from = x + wide


def _finished(samples: Sequence[Sample], scale: _Scale, top: int) -> Iterator[str]:
    most = _nice(max((_rate(one, two) for one, two in _pairs(samples)), default=0.0))
    yield from _panel("answers finished a second", top, most)
    for before, sample in _pairs(samples):
        left, right = scale.x(before.at_ms), scale.x(sample.at_ms)
        rate = _rate(before, sample)
        tall = round(PANEL * rate / most, 1)
        if tall > 0:
            wide = round(max(1.0, right - left - 1), 1)
            second = (sample.at_ms - scale.from_ms) / 1_000
            yield (
                f'<rect class="bar" x="{left}" y="{top + PANEL - tall}" width="{wide}" height="{tall}">'
                f"<title>{second:.0f} s: {rate:.1f} a second</title></rect>"
            )


def _lag(samples: Sequence[Sample], scale: _Scale, top: int) -> Iterator[str]:
    most = _nice(max((count for one in samples for count in one.lag.values()), default=0))
    yield from _panel("records not committed", top, most)
    for number, name in enumerate(SERIES):
        x = LEFT + 190 + number * 96
        yield f'<rect class="f{number}" x="{x}" y="{top - 16}" width="10" height="10" rx="2"/>'
        yield f'<text class="s" x="{x + 15}" y="{top - 7}">{name}</text>'
        for run in _runs(samples, name):
            points = " ".join(
                f"{scale.x(at_ms)},{round(top + PANEL - PANEL * count / most, 1)}"
                for at_ms, count in run
            )
            yield f'<polyline class="line c{number}" points="{points}"/>'


def _runs(samples: Sequence[Sample], name: str) -> Iterator[list[tuple[int, int]]]:
    """Stretches in which the part told its lag; silence is a gap."""
    run: list[tuple[int, int]] = []
    for sample in samples:
        if name in sample.lag:
            run.append((sample.at_ms, sample.lag[name]))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _panel(words: str, top: int, most: float) -> Iterator[str]:
    yield f'<text class="t" x="{LEFT}" y="{top - 7}">{words}</text>'
    for share in (0.0, 0.5, 1.0):
        y = top + PANEL - PANEL * share
        kind = "axis" if share == 0 else "grid"
        yield f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
        yield f'<text class="s" x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{most * share:g}</text>'


def _pairs(samples: Sequence[Sample]) -> Iterator[tuple[Sample, Sample]]:
    return pairwise(samples)


def _rate(before: Sample, sample: Sample) -> float:
    """Looks are not exactly a second apart."""
    return sample.ended / max(0.001, (sample.at_ms - before.at_ms) / 1_000)


def _nice(most: float) -> float:
    """The end of an axis: the next round number."""
    size = 1.0
    while size * 10 < most:
        size *= 10
    return next(one for one in (size, 2 * size, 2.5 * size, 5 * size, 10 * size) if most <= one)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
