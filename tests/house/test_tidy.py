"""Tidiness of the source: size, docstrings, names, errors. Each rule lists every place that breaks it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.source import PACKAGES, modules, name, strings, text, tree
from topics.registry import BY_NAME

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60
MEDIAN_LINES_MAX = 120
P90_LINES_MAX = 250

# What is longer today may only shrink, and leaves this list when it fits: name -> lines.
LONG_MODULES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}

# Catching everything belongs to a shell's outermost loop alone: file -> how often.
OUTERMOST: dict[str, int] = {
    "processors/shell.py": 1,
    "inference/answers.py": 2,
    "edge/door.py": 1,
}

# Tests that still quote topics; only ever fewer.
QUOTING_TESTS = {
    "tests/connectors/closer/test_low_water.py",
    "tests/connectors/closer/test_process.py",
    "tests/processors/runs/test_runs_fold.py",
}

BANNED_NOUNS = ("Manager", "Handler", "Utils", "Util", "Helper", "Job")
BANNED_STEMS = {"utils", "util", "helpers", "common", "misc", "manager"}


def complain(complaints: list[str]) -> None:
    assert not complaints, "\n" + "\n".join(complaints)


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name with its file, and lines."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name(path)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1


def lines_of(path: Path) -> int:
    return text(path).count("\n")


def test_a_module_fits_in_the_head() -> None:
    complain(
        [
            f"{name(path)} has {lines_of(path)} lines: split it by noun"
            for path in modules()
            if lines_of(path) > LONG_MODULES.get(name(path), MODULE_LINES_MAX)
        ]
    )


def test_a_function_fits_on_a_screen() -> None:
    complain(
        [
            f"{where} has {lines} lines: name its parts"
            for path in modules()
            for where, lines in functions(path)
            if lines > LONG_FUNCTIONS.get(where, FUNCTION_LINES_MAX)
        ]
    )


def test_lists_of_exceptions_only_shrink() -> None:
    sizes = {name(path): lines_of(path) for path in modules()}
    lengths = {where: lines for path in modules() for where, lines in functions(path)}
    complain(
        [
            f"{where} has {found.get(where)} lines now: take it off the list or lower its number"
            for listed, found, bound in (
                (LONG_MODULES, sizes, MODULE_LINES_MAX),
                (LONG_FUNCTIONS, lengths, FUNCTION_LINES_MAX),
            )
            for where, lines in listed.items()
            if not bound < found.get(where, 0) == lines
        ]
    )


def test_most_modules_are_small() -> None:
    sizes = sorted(lines_of(path) for path in modules(*PACKAGES) if text(path).strip())
    assert sizes[len(sizes) // 2] <= MEDIAN_LINES_MAX
    assert sizes[len(sizes) * 9 // 10] <= P90_LINES_MAX


def test_a_module_says_what_it_is() -> None:
    complain(
        [
            f"{name(path)}: say in a docstring what it owns and what it never does"
            for path in modules()
            if text(path).strip() and len(ast.get_docstring(tree(path)) or "") < 20
        ]
    )


def test_every_package_is_one() -> None:
    complain(
        [
            f"{name(folder)} needs an __init__.py that says what it is"
            for folder in sorted({path.parent for path in modules(*PACKAGES)})
            if not (folder / "__init__.py").is_file()
        ]
    )


def test_nobody_swallows_every_error() -> None:
    complaints = []
    for path in modules(*PACKAGES):
        found = [
            node.lineno
            for node in ast.walk(tree(path))
            if isinstance(node, ast.ExceptHandler) and _catches_all(node) and not _raises(node)
        ]
        if len(found) > OUTERMOST.get(name(path), 0):
            complaints.append(f"{name(path)}:{found}: name the errors and let all others crash")
    complain(complaints)


def _catches_all(node: ast.ExceptHandler) -> bool:
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})
        for kind in kinds
    )


def _raises(node: ast.ExceptHandler) -> bool:
    last = node.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def test_things_have_their_own_names() -> None:
    complaints = [
        f"{name(path)}: {node.name}: say what it is, not that it manages"
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and node.name.endswith(BANNED_NOUNS)
    ]
    complaints += [
        f"{name(path)}: name its noun" for path in modules() if path.stem in BANNED_STEMS
    ]
    complain(complaints)


def quoted_topics(source: str) -> list[str]:
    """Topic names quoted in a module, whole or begun in an f-string."""
    dotted = {topic for topic in BY_NAME if "." in topic or "-" in topic}
    families = {f"{topic.partition('.')[0]}." for topic in dotted if topic.startswith("inference.")}
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in dotted:
            found.append(str(node.value))
        if isinstance(node, ast.JoinedStr) and node.values:
            first = node.values[0]
            if isinstance(first, ast.Constant) and str(first.value) in families:
                found.append(str(first.value))
    return found


def test_a_topics_name_is_written_once() -> None:
    quoting = {
        name(path): found
        for path in modules()
        if name(path) != "topics/registry.py" and (found := quoted_topics(text(path)))
    }
    complain(
        [
            f"{where}: {sorted(set(found))}: import the topic from topics.registry"
            for where, found in quoting.items()
            if where not in QUOTING_TESTS
        ]
    )
    assert all(where.startswith("tests/") for where in QUOTING_TESTS)


def test_the_rule_of_topic_names_bites() -> None:
    inbox = "runs" + ".inbox"
    assert quoted_topics(f'x = "{inbox}"') == [inbox]
    lane = "inference" + "."
    assert quoted_topics(f'f"{lane}{{pool}}.paid"') == [lane]
    assert quoted_topics('f"inferences {x}"') == []


def unstamped(statement: str) -> bool:
    """A write to `results` that would take the server's own timestamp."""
    words = " ".join(statement.upper().split()).replace(".", " ")
    writes = "INSERT INTO" in words or words.startswith("UPDATE ")
    return writes and " RESULTS " in f"{words} " and "USING TIMESTAMP ?" not in words


def test_rows_that_epochs_compete_for_carry_their_own_timestamp() -> None:
    """A default timestamp would win for ever over every row written with an explicit one."""
    from connectors.store import statements

    assert [s for s in statements.ALL if "results" in s and "USING TIMESTAMP ?" in s]
    complain([statement for statement in statements.ALL if unstamped(statement)])
    complain(
        [
            f"{name(path)}:{line}: write USING TIMESTAMP ?"
            for path in modules(*PACKAGES)
            for line, value in strings(path)
            if unstamped(value)
        ]
    )


def test_the_rule_of_timestamps_bites() -> None:
    assert unstamped("INSERT INTO {keyspace}.results (a) VALUES (?) USING TTL ?")
    assert unstamped("update results set a = 1")
    assert not unstamped("INSERT INTO results (a) VALUES (?) USING TIMESTAMP ? AND TTL ?")
    assert not unstamped("INSERT INTO keys (a) VALUES (?)")
