"""A drill's report as Markdown; pictures are files beside it. Pure. Owns the look, no words of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ops.drill.report_model import Report, Row


def markdown(report: Report, picture_of: Callable[[str], str]) -> str:
    """`picture_of` gives the path of a cell's picture, seen from the report; empty for none."""
    return "\n".join(_lines(report, picture_of)) + "\n"


def _lines(report: Report, picture_of: Callable[[str], str]) -> Iterator[str]:
    yield f"# Drill of {report.at}"
    yield ""
    yield f"{report.passed} of {len(report.rows)} cells passed. Seed {report.seed}; again with:"
    yield ""
    yield f"```bash\n{report.command}\n```"
    yield ""
    yield "## Promises"
    yield ""
    rows = [(one.words, one.state.value, one.measured) for one in report.promises]
    yield from _table(("promise", "", "measured"), rows)
    yield ""
    yield "## Cells"
    yield ""
    yield from _table(
        ("cell", "row", "fault", "bit", "ok / refused / unknown", "findings", "s", "verdict"),
        [_summary(row) for row in report.rows],
    )
    if report.figures:
        yield from ("", "## Figures", "")
        yield from _table(
            ("figure", "measured", "median", "worst", "in"),
            [
                (one.name, str(one.count), f"{one.median:g}", f"{one.worst:g}", one.cell)
                for one in report.figures
            ],
        )
    yield from ("", "## Machine", "")
    yield from _table(("", ""), list(report.machine.items()))
    for row in report.rows:
        yield ""
        yield from _cell(row, picture_of(row.result.name))


def _summary(row: Row) -> tuple[str, ...]:
    one = row.result
    return (
        one.name,
        one.row,
        row.what,
        "yes" if one.bit else "no",
        row.requests,
        str(len(one.findings)),
        f"{row.took_s:.0f}",
        row.verdict,
    )


def _cell(row: Row, picture: str) -> Iterator[str]:
    one = row.result
    yield f"## {one.name}: {row.verdict}"
    yield ""
    yield f"Row {one.row}. {row.what}".rstrip()
    yield ""
    if picture:
        yield f"![{one.name}: faults, answers finished a second, lag]({picture})"
        yield ""
    if one.error:
        yield f"- broke off: {_plain(one.error)}"
    for bite in one.bites:
        note = f" ({bite.note})" if bite.note else ""
        yield f"- {'seen' if bite.seen else '**not seen**'}: {_plain(bite.sign + note)}"
    for name, value in one.measured.items():
        yield f"- {name}: {value:g}"
    for found in one.findings:
        who = " ".join(word for word in (found.generation_id, found.client) if word)
        yield f"- **{found.invariant.value}**: {_plain(found.what)} {who}".rstrip()
        for line in found.evidence:
            yield f"  - {_plain(line)}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(_plain(cell) for cell in row)} |"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
