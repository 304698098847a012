"""Writes a drill's report: `report.md` with its pictures beside it, and `report.html` whole in one file.

Owns the names of the files. What is said is the model's, how it looks the writers'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ops.drill.cells import BY_NAME
from ops.drill.report_html import html
from ops.drill.report_machine import machine
from ops.drill.report_markdown import markdown
from ops.drill.report_model import report_of
from ops.drill.report_picture import picture
from ops.drill.result import CellResult

MARKDOWN: Final = "report.md"
HTML: Final = "report.html"
PICTURES: Final = "pictures"


def write(results: Sequence[CellResult], out: Path, on: Mapping[str, str] | None = None) -> None:
    """Puts the report of these results into the folder. `on` is the machine they ran on, this one if
    left out."""
    what = {name: cell.what for name, cell in BY_NAME.items()}
    told = report_of(results, machine() if on is None else on, what=what, everything=BY_NAME.keys())
    pictures = {one.name: picture(one) for one in results if one.samples}
    (out / PICTURES).mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures.items():
        (out / PICTURES / _file_of(name)).write_text(drawn, encoding="utf-8")
    files = {name: f"{PICTURES}/{_file_of(name)}" for name in pictures}
    text = markdown(told, lambda name: files.get(name, ""))
    (out / MARKDOWN).write_text(text, encoding="utf-8")
    (out / HTML).write_text(html(told, pictures), encoding="utf-8")


def _file_of(name: str) -> str:
    return f"{name.replace('/', '_')}.svg"
