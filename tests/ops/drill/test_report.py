"""The report: what it says of passed, failed and toothless cells; its files stand by themselves."""

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ops.drill.report import HTML, MARKDOWN, PICTURES, write
from ops.drill.report_machine import machine
from ops.drill.report_model import Promise, State, promises, report_of
from ops.drill.report_picture import picture, spans
from ops.drill.result import CellResult, Fault
from tests.ops.drill.results import T0, did_not_bite, failed, passed

ON = {"processor": "two cores"}
RESULTS = [passed(), failed(), did_not_bite()]


def promise(results: list[CellResult], words: str) -> Promise:
    return next(one for one in promises(results) if words in one.words)


def test_a_promise_is_kept_broken_or_not_measured() -> None:
    assert promise([passed()], "double settlement").state is State.KEPT
    broken = promise([passed(), failed()], "double settlement")
    assert (broken.state, broken.measured) == (State.BROKEN, "1 findings; 180 holds, 2 cells")
    assert promise([], "accepted request is lost").state is State.OPEN
    assert promise([passed()], "zombie").state is State.OPEN
    assert promise([passed(row="4")], "zombie").state is State.KEPT
    assert promise([did_not_bite()], "zombie").state is State.BROKEN
    assert promise([passed()], "Every fault").state is State.KEPT
    assert promise([passed(), did_not_bite()], "Every fault").measured == "1 of 2 cells"


def test_every_machines_median_decides() -> None:
    def resumed(machine: str, median_s: float) -> CellResult:
        cell = passed(f"resume/{machine}")
        cell.measured = {"resumed_median_s": median_s, "resumed_max_s": 30.0}
        return cell

    words = "resume within 20 s"
    quick, slow = resumed("accounts", 4.5), resumed("runs", 20.5)
    assert promise([passed()], words).state is State.OPEN
    assert promise([passed(), quick], words).state is State.KEPT
    found = promise([quick, slow], words)
    assert found.state is State.BROKEN
    assert found.measured == "accounts 4.5 s (worst 30.0 s); runs 20.5 s (worst 30.0 s)"


def test_the_command_repeats_the_run() -> None:
    told = report_of(RESULTS, ON, what={}, everything=[one.name for one in RESULTS])
    assert told.command == "milena drill --seed 7"
    told = report_of([passed()], ON, what={"runs-kill": "kill"}, everything=["a", "runs-kill"])
    assert told.command == "milena drill --seed 7 --cells runs-kill"
    assert told.at == "2026-12-02 00:00 UTC"
    (row,) = told.rows
    assert (row.what, row.requests, row.verdict) == ("kill", "100 / 12 / 8", "passed")
    assert [(one.name, one.median) for one in told.figures] == [("back_s", 3.3), ("resumed_s", 4.5)]


def test_the_files_stand_by_themselves(tmp_path: Path) -> None:
    write(RESULTS, tmp_path, ON)
    page = (tmp_path / HTML).read_text(encoding="utf-8")
    text = (tmp_path / MARKDOWN).read_text(encoding="utf-8")
    outside = re.findall(r"""(?:src=|href=|url\()["']?([^"')\s>]+)""", page)
    assert outside
    assert all(one.startswith("#") for one in outside), "the page needs something from outside"
    assert "<script>" not in page, "what a run says is never markup"
    assert "prefers-color-scheme" in page
    Closed().feed(page)
    for name in re.findall(r"!\[.*?\]\((.*?)\)", text):
        assert name.startswith(f"{PICTURES}/")
        ElementTree.parse(tmp_path / name)
    for told in (page, text):
        assert "1 of 3 cells passed" in told
        for words in ("runs-kill", "did not bite", "a hold ended twice", "two cores", "gen_01"):
            assert words in told
    assert "0 \\| none" in text, "a bar in a cell would end it"
    widths = {line.count(" | ") for line in text.splitlines() if line.startswith("| runs-kill |")}
    assert widths == {7}


def test_an_empty_run_is_a_report_too(tmp_path: Path) -> None:
    write([], tmp_path, ON)
    assert "0 of 0 cells passed" in (tmp_path / HTML).read_text(encoding="utf-8")


def test_a_fault_lasts_until_it_is_taken_back() -> None:
    def at(second: int, what: str, part: str = "runs") -> Fault:
        return Fault(T0 + second * 1_000, what, part)

    faults = [
        at(1, "kill -9"),
        at(2, "joins", "b"),
        at(3, "is back"),
        at(4, "kill -9", "b"),
        at(5, "SIGSTOP"),
        at(6, "milena topics apply"),
    ]
    found = [
        (one.part, (one.from_ms - T0) // 1_000, (one.to_ms - T0) // 1_000)
        for one in spans(faults, T0 + 9_000)
    ]
    assert found == [("runs", 1, 3), ("b", 2, 4), ("runs", 5, 9)]


@pytest.mark.parametrize("result", RESULTS, ids=lambda one: one.name)
def test_a_picture_stays_inside_its_frame(result: CellResult) -> None:
    root = ElementTree.fromstring(picture(result))
    _, _, wide, tall = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        for name, bound in (("x", wide), ("cx", wide), ("x2", wide), ("y", tall), ("y2", tall)):
            assert 0 <= float(element.attrib.get(name, 0)) <= bound, element.attrib
        right = float(element.attrib.get("x", 0)) + float(element.attrib.get("width", 0))
        assert right <= wide + 0.5, element.attrib
    lines = [one for one in root.iter() if one.tag.endswith("polyline")]
    assert len(lines) == (5 if result.samples else 0), "runs is silent once, so it has two lines"


def test_the_machine_is_told() -> None:
    told = machine()
    assert "cores" in told["processor"]
    assert told["faust-streaming"] == "0.15.3"
    assert told["Apache Kafka"]


class Closed(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
