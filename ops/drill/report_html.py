"""A drill's report as one page that needs nothing else: style and pictures are inside. Pure.

Owns the look, in the reader's light or dark; every text from a run is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from ops.drill.report_model import Report, Row, State

STYLE: Final = """
:root{color-scheme:light dark;--bg:#f6f8fa;--card:#fff;--text:#1f2328;--soft:#59636e;--line:#d9dee3;
--good:#1a7f37;--bad:#d1242f;--open:#9a6700;--code:#eef1f4}
@media(prefers-color-scheme:dark){:root{--bg:#010409;--card:#0d1117;--text:#e6edf3;--soft:#9198a1;
--line:#262c33;--good:#56d364;--bad:#ff7b72;--open:#d29922;--code:#161b22}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--text);
font:15px/1.5 system-ui,sans-serif}main{max-width:1040px;margin:0 auto;padding:32px 24px 64px}
h1{font-size:26px;margin:0 0 4px}h2{font-size:18px;margin:40px 0 12px}h3{font-size:16px;margin:0}
p{margin:0 0 12px}.soft{color:var(--soft)}code,pre{background:var(--code);border-radius:6px;
font:13px ui-monospace,monospace}code{padding:2px 5px}pre{padding:12px 14px;overflow-x:auto;margin:0}
.card{background:var(--card);border:1px solid var(--line);border-radius:10px;overflow:hidden}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}
th{font-weight:600;text-align:left;color:var(--soft);font-size:12.5px}
th,td{padding:8px 14px;border-bottom:1px solid var(--line);vertical-align:top}
tr:last-child td{border-bottom:0}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}td span{white-space:nowrap}a{color:inherit;text-underline-offset:3px}
.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}.open{color:var(--open)}
section.card{padding:18px 20px;margin:0 0 18px}section .head{display:flex;gap:10px;align-items:baseline;
flex-wrap:wrap;margin-bottom:10px}section svg{display:block;max-width:100%;height:auto}
ul{margin:12px 0 0;padding-left:20px;font-size:14px}li{margin:2px 0}
li ul{margin:2px 0 6px;color:var(--soft);font-size:13px}
"""
_TONE: Final = {State.KEPT: "good", State.BROKEN: "bad", State.OPEN: "open"}


def html(report: Report, pictures: Mapping[str, str]) -> str:
    """The page; `pictures` are SVG by cell."""
    body = "".join(_body(report, pictures))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Drill of {escape(report.at)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}</main></body></html>\n"
    )


def _body(report: Report, pictures: Mapping[str, str]) -> Iterator[str]:
    tone = "good" if report.passed == len(report.rows) else "bad"
    yield f"<h1>Drill of {escape(report.at)}</h1>"
    yield f'<p><span class="{tone}">{report.passed} of {len(report.rows)} cells passed.</span> '
    yield f'<span class="soft">Seed {report.seed}; the same again:</span></p>'
    yield f"<pre>{escape(report.command)}</pre>"
    yield "<h2>Promises</h2>"
    yield _table(
        ("promise", "", "measured"),
        [
            (escape(one.words), _toned(one.state.value, _TONE[one.state]), _code(one.measured))
            for one in report.promises
        ],
    )
    yield "<h2>Cells</h2>"
    heads = ("cell", "row", "fault", "bit", "ok / refused / unknown", "findings", "s", "verdict")
    yield _table(heads, [_summary(row) for row in report.rows], numbers={4, 5, 6})
    if report.figures:
        yield "<h2>Figures</h2>"
        rows = [
            (escape(f.name), str(f.count), f"{f.median:g}", f"{f.worst:g}", escape(f.cell))
            for f in report.figures
        ]
        yield _table(("figure", "measured", "median", "worst", "in"), rows, numbers={1, 2, 3})
    yield "<h2>Faults against throughput and lag</h2>"
    for row in report.rows:
        yield from _cell(row, pictures.get(row.result.name, ""))
    yield "<h2>Machine</h2>"
    yield _table(("", ""), [(escape(k), escape(v)) for k, v in report.machine.items()])


def _summary(row: Row) -> tuple[str, ...]:
    one = row.result
    return (
        f'<a href="#{escape(one.name, quote=True)}">{escape(one.name)}</a>',
        escape(one.row),
        escape(row.what),
        "yes" if one.bit else _toned("no", "bad"),
        row.requests,
        str(len(one.findings)),
        f"{row.took_s:.0f}",
        _verdict(row),
    )


def _verdict(row: Row) -> str:
    return _toned(row.verdict, "good" if row.result.passed else "bad")


def _cell(row: Row, picture: str) -> Iterator[str]:
    one = row.result
    yield f'<section class="card" id="{escape(one.name, quote=True)}"><div class="head">'
    yield f"<h3>{escape(one.name)}</h3>{_verdict(row)}"
    told = " · ".join(word for word in (f"row {one.row}", row.what) if word)
    yield f'<span class="soft">{escape(told)}</span></div>'
    if picture:
        yield f'<div class="wide">{picture}</div>'
    items = [*_items(row)]
    if items:
        yield f"<ul>{''.join(items)}</ul>"
    yield "</section>"


def _items(row: Row) -> Iterator[str]:
    one = row.result
    if one.error:
        yield f"<li>{_toned('broke off', 'bad')}: {escape(one.error)}</li>"
    for found in one.findings:
        who = " ".join(word for word in (found.generation_id, found.client) if word)
        told = "".join(f"<li>{escape(line)}</li>" for line in found.evidence)
        more = f"<ul>{told}</ul>" if told else ""
        name = _toned(found.invariant.value, "bad")
        yield f"<li>{name}: {escape(found.what)} <code>{escape(who)}</code>{more}</li>"
    for bite in one.bites:
        seen = "seen" if bite.seen else _toned("not seen", "bad")
        note = f' <span class="soft">({escape(bite.note)})</span>' if bite.note else ""
        yield f"<li>{seen}: {escape(bite.sign)}{note}</li>"
    for name, value in one.measured.items():
        yield f"<li>{escape(name)}: {value:g}</li>"


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int] | None = None
) -> str:
    """Cells are HTML already."""
    right = numbers or set()

    def line(tag: str, cells: Sequence[str]) -> str:
        marks = (' class="n"' if at in right else "" for at in range(len(cells)))
        made = (f"<{tag}{mark}>{cell}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line("td", row) for row in rows)
    top = f"<thead>{line('th', head)}</thead>" if any(head) else ""
    return f'<div class="card wide"><table>{top}<tbody>{body}</tbody></table></div>'


def _toned(words: str, tone: str) -> str:
    return f'<span class="{tone}">{escape(words)}</span>'


def _code(text: str) -> str:
    """Escaped, with words between backticks as code."""
    parts = escape(text).split("`")
    return "".join(f"<code>{p}</code>" if at % 2 else p for at, p in enumerate(parts))
