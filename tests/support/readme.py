"""The commands of README.md, as its tests read them: one rule for which are run and which not."""

import re
from pathlib import Path

import msgspec

README = Path(__file__).parents[2] / "README.md"
_BLOCK = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)

# Not run as they stand: what runs the same thing instead. `make test` and `make bench` run the rest.
ELSEWHERE = {
    "make run": "tests/real/conftest.py",
    "make check": "tests/house/test_readme.py",
    "make test": "tests/real/conftest.py",
    "make bench": "tests/ops/bench/test_hops.py",
    "make drill": "tests/real/test_drill.py",
    ".venv/bin/milena down": "tests/ops/stack/test_status.py",
}


class Block(msgspec.Struct, frozen=True):
    """One fenced block; a command may have several lines, joined by backslashes."""

    commands: tuple[str, ...]

    @property
    def run_here(self) -> str:
        """What `tests/real/test_readme.py` runs of it."""
        return "\n".join(c for c in self.commands if c not in ELSEWHERE)


def blocks() -> list[Block]:
    """Every block in the order of the file, comments left out."""
    text = README.read_text(encoding="utf-8")
    return [Block(_commands(found)) for found in _BLOCK.findall(text)]


def _commands(block: str) -> tuple[str, ...]:
    lines = block.replace("\\\n", "\\\0").splitlines()
    whole = [line.replace("\0", "\n").strip() for line in lines]
    return tuple(command for command in whole if command and not command.startswith("#"))
