"""The project's own source, as the house rules read it: files, syntax trees, tracked text."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "topics", "processors", "edge", "inference", "connectors", "ops")
GENERATED = ROOT / "schemas" / "generated"


def modules(*folders: str) -> list[Path]:
    """Python files of these folders, generated ones left out."""
    chosen = folders or (*PACKAGES, "tests")
    found = [path for folder in chosen for path in sorted((ROOT / folder).rglob("*.py"))]
    return [path for path in found if GENERATED not in path.parents]


@cache
def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(text(path), str(path))


def name(path: Path) -> str:
    """`processors/runs/fold.py`, for messages and lists."""
    return path.relative_to(ROOT).as_posix()


def tracked() -> list[Path]:
    """Every file under version control that is here and is text, and new ones not yet added."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=30,
    )
    paths = [ROOT / entry for entry in listed.stdout.decode().split("\0") if entry]
    return [path for path in paths if path.is_file() and not _binary(path)]


def _binary(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" in file.read(8_192)


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Line and value of every string that is no docstring; of an f-string, its fixed parts."""
    whole = tree(path)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(whole)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(whole):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value
