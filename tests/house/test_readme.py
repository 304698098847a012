"""Every command in README.md is run by a test, here or where `ELSEWHERE` says."""

import re

from tests.house.source import ROOT
from tests.support.readme import ELSEWHERE, Block, _commands, blocks

# What may stand in a block that `tests/real/test_readme.py` runs against its own stack.
RUNNABLE = re.compile(r"^(?:[A-Z]+=|curl |\.venv/bin/milena )")


def test_every_command_is_run_somewhere() -> None:
    commands = [command for block in blocks() for command in block.commands]
    assert commands
    unknown = [c for c in commands if c not in ELSEWHERE and not RUNNABLE.match(c)]
    assert not unknown, f"{unknown}: run it in a test, or name in ELSEWHERE the test that does"


def test_what_is_listed_elsewhere_exists() -> None:
    for command, where in ELSEWHERE.items():
        assert (ROOT / where).is_file(), f"{command}: {where}"


def test_make_targets_are_there_and_do_what_they_say() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ELSEWHERE:
        if command.startswith("make "):
            assert re.search(rf"^{command.removeprefix('make ')}:", makefile, re.MULTILINE), command
    assert re.search(r"^run:.*\n\t@exec \$\(VENV\)/milena up$", makefile, re.MULTILINE)
    for part in ("ruff format --check", "ruff check", "mypy", "lint-imports", "pytest"):
        assert part in makefile.partition("lint:")[2]


def test_blocks_are_read_as_a_shell_would() -> None:
    assert _commands("# why\nmake run\ncurl x \\\n  -d y\n\n") == ("make run", "curl x \\\n  -d y")
    assert Block(("make run", "curl x")).run_here == "curl x"
