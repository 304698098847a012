"""Imports point one way. The contracts are in pyproject.toml; this runs them, and two more rules."""

import ast
import subprocess
import sys

import pytest

from tests.house.source import ROOT, modules, name, tree

FORBIDDEN = {
    "processors": {"redis", "cassandra", "fastapi", "starlette", "xllamacpp", "vllm"},
    "inference": {"faust", "fastapi", "starlette", "uvicorn"},
    "edge": {"faust", "xllamacpp", "vllm"},
    "connectors": {"faust", "fastapi", "starlette", "vllm"},
    "topics": {"faust", "fastapi", "vllm", "redis", "cassandra"},
    "schemas": {"faust", "fastapi", "vllm", "redis", "cassandra", "confluent_kafka", "topics"},
}


def test_the_contracts_hold() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as l; l()",
         "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr[-1_000:]
    assert " 0 broken" in ran.stdout


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_imports_what_it_may(package: str) -> None:
    complaints = [
        f"{name(path)} imports {root}"
        for path in modules(package)
        for node in ast.walk(tree(path))
        for root in _roots(node)
        if root in FORBIDDEN[package]
    ]
    assert not complaints, "\n".join(complaints)


def _roots(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module.partition(".")[0]]
    return []
