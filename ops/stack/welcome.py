"""What is printed once the stack serves: where it is, the keys, and a command to try."""

from __future__ import annotations

import shlex
from pathlib import Path

from ops.stack.settings import StackSettings

BODY = (
    '{"model": "flagship", "messages": [{"role": "user", '
    '"content": "What is TCP?"}], "stream": true}'
)


def welcome(settings: StackSettings, seconds: float, *, edge: bool) -> list[str]:
    """The lines."""
    if not edge:
        return [f"ready after {seconds:.1f} s, data in {settings.data}. Ctrl-C stops it."]
    url = f"http://127.0.0.1:{settings.ports.edge}"
    keys = settings.data / "keys.json"
    return [
        "",
        f"Milena is ready after {seconds:.1f} s: {url} (data in {settings.data})",
        f"Keys: {keys}. Ask it something:",
        "",
        *example(url, keys),
        "",
        "Ctrl-C stops everything; `milena status` shows the parts.",
    ]


def example(url: str, keys: Path) -> list[str]:
    """A command for any shell with curl, to be copied as it is."""
    read = f'import json; print(json.load(open({str(keys)!r}))["free"])'
    return [
        f"  curl -N {url}/v1/generations \\",
        f'    -H "Authorization: Bearer $(python3 -c {shlex.quote(read)})" \\',
        '    -H "Idempotency-Key: $(date +%s%N)" \\',
        '    -H "Content-Type: application/json" \\',
        f"    -d {shlex.quote(BODY)}",
    ]
