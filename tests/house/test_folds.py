"""A fold is pure: what it may not touch, and what it takes instead."""

import ast
from pathlib import Path

import pytest

from tests.house.source import modules, name, tree

FOLDS = tuple(
    f"processors/{part}"
    for part in ("admission", "settlement", "runs", "workers", "metering", "moderation")
)
# Read by `__main__` and the shell, outside of any fold.
NOT_FOLDS = {"settings.py"}

TIME_COMES_IN = "take event.append_ms: time comes in with the event"
BANNED_MODULES = {
    "time": TIME_COMES_IN,
    "datetime": "count epoch milliseconds from event.append_ms",
    "topics.runtime.clock": TIME_COMES_IN,
    "random": "derive it from the event: a repeat must decide alike",
    "secrets": "ids are minted at the edge and come in",
    "uuid": "use topics.ids.output_id: a repeat must give the same id",
    "ulid": "ids are minted at the edge and come in",
    "os": "settings are read in __main__ and passed down",
    "asyncio": "a fold waits for nobody; the shell does",
    "threading": "a fold runs alone",
    "socket": "emit an output instead",
    "subprocess": "emit an output instead",
    "pathlib": "a fold has no files",
    "logging": "tell it as a fact",
    "structlog": "tell it as a fact",
    "prometheus_client": "the shell counts",
    "faust": "only the shell knows Faust",
}
BANNED_CALLS = {
    "open": "a fold has no files",
    "print": "tell it as a fact",
    "input": "everything comes in with the event",
    "id": "an address differs in every process",
    "hash": "it differs in every process; use topics.ids.keyed_hash",
    "set_order": "iterate over sorted(…): a set's order is not the log's",
    "await": "a fold waits for nobody; the shell does",
}


def impure(source: ast.Module) -> list[str]:
    """What a module does that a fold may not, with what it takes instead."""
    found = []
    for node in ast.walk(source):
        found += [f"{_line(node)}: no {used}: {better}" for used, better in _uses(node)]
    return found


def _uses(node: ast.AST) -> list[tuple[str, str]]:
    match node:
        case ast.Import():
            return [_banned(alias.name) for alias in node.names if _banned(alias.name)[1]]
        case ast.ImportFrom(module=str(module)):
            whole = [module, *(f"{module}.{alias.name}" for alias in node.names)]
            return [_banned(one) for one in whole if _banned(one)[1]][:1]
        case ast.Call(func=ast.Name(id=called)) if called in BANNED_CALLS:
            return [(called, BANNED_CALLS[called])]
        case ast.Await() | ast.AsyncFunctionDef() | ast.AsyncFor() | ast.AsyncWith():
            return [("await", BANNED_CALLS["await"])]
        case ast.For() | ast.comprehension() if _unordered(node.iter):
            return [("set order", BANNED_CALLS["set_order"])]
        case _:
            return []


def _banned(imported: str) -> tuple[str, str]:
    root = imported.partition(".")[0]
    return imported, BANNED_MODULES.get(imported) or BANNED_MODULES.get(root, "")


def _unordered(over: ast.expr) -> bool:
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Name):
        return over.func.id in {"set", "frozenset"}
    return isinstance(over, ast.Set | ast.SetComp)


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def folds() -> list[Path]:
    return [path for path in modules(*FOLDS) if path.name not in NOT_FOLDS]


def test_folds_are_pure() -> None:
    complaints = [f"{name(path)}:{what}" for path in folds() for what in impure(tree(path))]
    assert folds()
    assert not complaints, "\n" + "\n".join(complaints)


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from time import monotonic",
        "import datetime as d",
        "from uuid import uuid4",
        "import random",
        "from topics.runtime import clock",
        "from topics.runtime.clock import wall_ms",
        "import os.path",
        "async def fold(): ...",
        "for x in set(y): pass",
        "a = [x for x in {1, 2}]",
        "print(1)",
    ],
)
def test_the_rule_bites(source: str) -> None:
    found = impure(ast.parse(source))
    assert len(found) == 1, found
    assert found[0].rpartition(": ")[2], "it names what to use instead"


def test_the_rule_lets_folds_live() -> None:
    source = "import msgspec\nfrom topics.ids import output_id\nfor x in sorted({1}): y = x.time()"
    assert impure(ast.parse(source)) == []
