"""The Lua scripts, read once. Owns the pair of source and digest; runs nothing."""

import hashlib
from pathlib import Path
from typing import Final

import msgspec


class Script(msgspec.Struct, frozen=True):
    """One script: called by `sha`, by `source` where Redis does not know it yet."""

    name: str
    source: str
    sha: str


def _read(name: str) -> Script:
    source = (Path(__file__).parent / "lua" / f"{name}.lua").read_text("ascii")
    # The digest is Redis' name for a script, no protection.
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


APPEND: Final = _read("append")
CHECK: Final = _read("check")
OPEN: Final = _read("open")
STOP: Final = _read("stop")
RELEASE: Final = _read("release")
FENCE: Final = _read("fence")
END: Final = _read("end")
TOUCH: Final = _read("touch")
SCRIPTS: Final = (APPEND, CHECK, OPEN, STOP, RELEASE, FENCE, END, TOUCH)
