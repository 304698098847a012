"""Runs README.md's commands as they stand, against this suite's stack instead of the default one."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest

from ops.stack.fresh import FreshStack
from tests.support.readme import blocks

BLOCK_S_MAX = 90
GENERATION = re.compile(r"gen_[0-9A-HJKMNP-TV-Z]{26}")


def here(command: str, stack: FreshStack, generation_id: str) -> str:
    """The same command with this stack's addresses, folder and interpreter."""
    for port in (8000, 8001):
        command = command.replace(f"127.0.0.1:{port}", f"127.0.0.1:{stack.base + port - 8000}")
    command = command.replace(".milena/", f"{stack.data}/")
    command = command.replace(".venv/bin/milena", f"{shlex.quote(sys.executable)} -m ops.cli.main")
    return GENERATION.sub(generation_id, command) if generation_id else command


@pytest.mark.skipif(shutil.which("curl") is None, reason="README uses curl")
def test_the_commands_do_what_they_say(stack: FreshStack) -> None:
    assignments, generation_id, ran = "", "", 0
    for block in blocks():
        script = here(block.run_here, stack, generation_id)
        if not script:
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{assignments}\n{script}"],
            env=stack.env,
            capture_output=True,
            text=True,
            timeout=BLOCK_S_MAX,
            check=False,
        )
        assert done.returncode == 0, f"{block.run_here}\n{done.stdout}\n{done.stderr}"
        assert not re.search(r'"error": *{', done.stdout), done.stdout
        ran += 1
        assignments += "\n".join(re.findall(r"^[A-Z]+=.*$", script, re.MULTILINE)) + "\n"
        found = GENERATION.search(done.stdout)
        generation_id = generation_id or (found.group() if found else "")
    assert generation_id, "the first question was answered"
    assert ran >= 3
